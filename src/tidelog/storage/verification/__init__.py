"""Checks of what is on disk, for a person to read: nothing is trusted, and nothing is ever changed."""
