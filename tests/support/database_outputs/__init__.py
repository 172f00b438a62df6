"""Databases as sinks: what tests of all of them share."""
