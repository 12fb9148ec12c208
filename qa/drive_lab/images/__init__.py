"""What guests boot from, built once and kept."""
