"""A data directory instead of a cluster, read by segments."""
