"""Pipelines on their way to where they run: what a place needs, what it cannot have, and the files for it."""
