"""Measuring: pairs of periods, experiments, the runs and campaigns that they belong to."""
