"""The log directories of a node that starts: locked, and formatted on first use."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from tidelog.broker.config.node_config import is_of_several, log_directories, voters_of
from tidelog.controller.formatting import FormatError, format_directories, new_cluster_id, refuse_lost_identity
from tidelog.controller.image import Endpoint
from tidelog.model import broker_config as keys
from tidelog.model.config import ConfigValues
from tidelog.model.ids import NodeId, TopicName
from tidelog.raft.voter_set import Endpoint as VoterEndpoint
from tidelog.storage.errors import DirectoryInUseError, StorageError
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.seams import Seams

logger = logging.getLogger(__name__)


def open_directories(
    config: ConfigValues,
    seams: Seams,
    opened: list[LogDirectory],
    *,
    config_of: Callable[[TopicName], LogConfig],
    on_offline: Callable[[LogDirectory, StorageError], None],
    open_segments: OpenSegments,
) -> None:
    """Adds the log directories to `opened`, that of the metadata log first, each as soon as it is locked.

    One that cannot be used is left out, unless it is the first. DirectoryInUseError where another process has one.
    """
    for path in log_directories(config):
        try:
            directory = LogDirectory.open(
                seams,
                path,
                config_of=config_of,
                on_offline=on_offline,
                open_segments=open_segments,
                producer_id_expiration_ms=config[keys.PRODUCER_ID_EXPIRATION_MS],
            )
        except DirectoryInUseError:
            raise
        except StorageError as error:
            if not opened:
                raise
            logger.error("log directory %s is left out: %s", path, error)  # noqa: TRY400 - the sentence is enough
            continue
        opened.append(directory)


def format_opened(
    opened: Sequence[LogDirectory], config: ConfigValues, seams: Seams, controller_endpoints: Sequence[Endpoint]
) -> str:
    """Formats what is new, checks what is not, and returns the id of the cluster that the directories belong to."""
    identities = [directory.identity for directory in opened]
    if is_of_several(config) and identities[0] is None:
        # Formatted alone, it would be a cluster of its own.
        raise FormatError(
            f"{opened[0].path} is not formatted, and the node belongs to a cluster of several: format it with that cluster's id"
        )
    for directory, identity in zip(opened, identities, strict=True):
        if identity is None:
            refuse_lost_identity(seams.files, directory.path)
    known = next((identity.cluster_id for identity in identities if identity is not None and identity.cluster_id), None)
    formatted = format_directories(
        seams.files,
        [directory.path for directory in opened],
        cluster_id=known or new_cluster_id(seams.random),
        node_id=NodeId(config[keys.NODE_ID]),
        controller_endpoints=tuple(VoterEndpoint(each.name, each.host, each.port) for each in controller_endpoints),
        random=seams.random,
        clock=seams.clock,
        is_static_quorum=len(voters_of(config)) > 0 or is_of_several(config),
    )
    for directory, identity in zip(opened, formatted, strict=True):
        directory.identity = identity
    return formatted[0].cluster_id or ""
