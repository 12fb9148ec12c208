"""Measuring: pairs of periods, experiments, runs of experiments, campaigns of runs."""
