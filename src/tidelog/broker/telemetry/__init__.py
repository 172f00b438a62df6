"""Metrics that clients push to this node (KIP-714): who is asked for which, what is taken of them, and where they are shown."""
