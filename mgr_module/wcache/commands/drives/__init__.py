"""Hosts, drives, drive models and controllers: answers and text."""
