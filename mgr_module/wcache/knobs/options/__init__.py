"""Options of a drive or an OSD: from verdicts of `ab` to the changes that make them true."""
