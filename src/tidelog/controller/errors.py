"""Why a node cannot go on with a metadata log that its disk has read correctly.

    MetadataError
    ├── InconsistentMetadataError     the log contradicts itself: it, or this code, is broken
    └── UnsupportedFeatureError       the cluster has agreed to something that this release cannot do

Either stops the node, also while it runs: acting on a wrong picture of the cluster would do damage.
"""

from __future__ import annotations

from tidelog.storage.errors import StorageError


class MetadataError(Exception):
    """The metadata log cannot be followed any further; one sentence says why."""


class InconsistentMetadataError(MetadataError):
    """The metadata log says something that cannot follow from what it said before."""


class UnsupportedFeatureError(MetadataError):
    """The cluster has agreed to something that this release cannot do."""


MetadataFault = StorageError | MetadataError
"""What ends a node's part in the metadata quorum."""
