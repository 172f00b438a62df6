"""Pipelines under test: the pytest fixture `tidelog_pipeline`, and what `tidelog pipeline chaos` does."""
