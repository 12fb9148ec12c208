"""From records to results: the analysis child, and what was found."""
