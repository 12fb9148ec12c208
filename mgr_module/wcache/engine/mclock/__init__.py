"""What is known of mClock's capacities: what was measured, and what is stored of them."""
