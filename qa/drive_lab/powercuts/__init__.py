"""Witnessed power cuts: what fdatasync acknowledged is on the medium, whatever wcache did."""
