"""A real cluster inside of a test: `EmbeddedCluster`, fixtures of pytest around it, and `KafkaContainer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.testing.container import KafkaContainer
    from tidelog.testing.embedded_cluster import EmbeddedCluster
    from tidelog.testing.errors import ClusterError
    from tidelog.testing.faults import Fault

__all__ = ["ClusterError", "EmbeddedCluster", "Fault", "KafkaContainer"]

# pytest imports this package in every run on a machine where Tidelog is installed; the broker is for those who use it.
_PUBLIC = {
    "ClusterError": "tidelog.testing.errors",
    "EmbeddedCluster": "tidelog.testing.embedded_cluster",
    "Fault": "tidelog.testing.faults",
    "KafkaContainer": "tidelog.testing.container",
}


def __getattr__(name: str) -> object:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # noqa: PLC0415

    return getattr(importlib.import_module(module), name)
