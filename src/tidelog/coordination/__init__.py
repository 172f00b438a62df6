"""Coordinators: groups of consumers and their offsets. See the README of this package."""
