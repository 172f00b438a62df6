"""A real cluster inside of a test: `EmbeddedCluster`, and the pytest fixtures `tidelog_cluster` and `tidelog_topic`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.testing.embedded_cluster import ClusterError, EmbeddedCluster

__all__ = ["ClusterError", "EmbeddedCluster"]


def __getattr__(name: str) -> object:
    # pytest imports this package in every run on a machine where Tidelog is installed; the broker is for those who use it.
    if name in __all__:
        from tidelog.testing import embedded_cluster  # noqa: PLC0415

        return getattr(embedded_cluster, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
