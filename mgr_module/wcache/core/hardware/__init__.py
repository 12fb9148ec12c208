"""What drives and controllers tell of themselves by tools of their vendors."""
