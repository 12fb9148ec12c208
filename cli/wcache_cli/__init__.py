"""`wcache`: the admin's terminal tool."""
