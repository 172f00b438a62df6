"""The outside world on demand: doubles of the seams that run a node, or a part of one, deterministically from a seed."""
