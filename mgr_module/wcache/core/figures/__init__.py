"""What was measured, in figures: quantiles, the table of latencies, plots, Prometheus' text."""
