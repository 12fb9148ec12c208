"""Options of drives and OSDs: from verdicts of `ab` to the changes that make them true."""
