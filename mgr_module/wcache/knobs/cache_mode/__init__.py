"""The cache mode of drives: from recommendations to the changes that make them true."""
