"""From records to results, by the analysis child."""
