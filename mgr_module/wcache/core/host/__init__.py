"""What a host is, apart from its drives."""
