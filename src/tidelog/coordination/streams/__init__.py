"""Streams groups: who their members are, what their topology needs, and which tasks each of them has. `groups` is the way in."""
