"""What an embedded cluster raises."""

from __future__ import annotations


class ClusterError(Exception):
    """The cluster cannot do what it was asked for; one sentence says why."""
