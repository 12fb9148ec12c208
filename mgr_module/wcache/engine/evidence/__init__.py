"""From records to results: the analysis child, pools of drives, what was found."""
