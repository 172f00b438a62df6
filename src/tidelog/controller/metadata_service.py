"""All that a node needs for its part in the cluster's metadata, put together: log, quorum, image, snapshots, controller.

service = MetadataService.open(seams, timers, MetadataParts(directory=..., identity=..., listener="CONTROLLER", ...))
service.committed.subscribe(...)      before the start, so that nobody misses the first image
service.start()
service.controller.handle(request, context)
service.quorum.shutdown(timeout_ms).then(...); service.close()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from tidelog.controller.committed_image import CommittedImage
from tidelog.controller.controller import Controller
from tidelog.controller.errors import MetadataFault
from tidelog.controller.features import SUPPORTED
from tidelog.controller.formatting import read_bootstrap
from tidelog.controller.image import Endpoint
from tidelog.controller.metadata_log import MetadataLog, MetadataLogConfig
from tidelog.controller.quorum import MetadataQuorum, Peers, quorum_config
from tidelog.controller.settings import ControllerSettings
from tidelog.controller.snapshotting import Snapshotting
from tidelog.model.config import ConfigValues
from tidelog.model.ids import random_uuid
from tidelog.model.timers import Timers
from tidelog.raft.config import LocalReplica
from tidelog.raft.voter_set import Endpoint as QuorumEndpoint, Node, ReplicaKey, VoterSet
from tidelog.storage.meta_properties import MetaProperties
from tidelog.storage.seams import Seams
from tidelog.wire.messages.broker_lifecycle import ControllerRegistrationRequest, Feature, Listener


def supported_features() -> list[Feature]:
    """What this release says of itself when a node registers."""
    return [
        Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
        for name, levels in sorted(SUPPORTED.items())
    ]


def listeners(endpoints: Iterable[Endpoint]) -> list[Listener]:
    """Endpoints as a registration names them."""
    return [
        Listener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
        for each in endpoints
    ]


class MetadataParts(Struct, frozen=True):
    """What a node brings to its part in the metadata."""

    directory: str
    """The log directory of the metadata log."""
    identity: MetaProperties
    """What its meta.properties say."""
    listener: str
    """The one for other controllers, by name."""
    endpoints: tuple[Endpoint, ...]
    """Where this node's controller listens."""
    config: ConfigValues
    settings: ControllerSettings
    on_fault: Callable[[MetadataFault], None]
    """Hears that the disk of the metadata log has failed, or that the log says what this release cannot follow: the node cannot
    go on."""
    static_voters: VoterSet | None = None
    bootstrap_servers: tuple[Node, ...] = ()
    peers: Peers | None = None
    can_become_voter: bool = True


class MetadataService(Struct, frozen=True):
    """The parts, joined. The caller has formatted the directory and holds its lock."""

    log: MetadataLog
    quorum: MetadataQuorum
    committed: CommittedImage
    controller: Controller
    registration: ControllerRegistrationRequest
    """What this node's controller says of itself."""

    @property
    def can_lead(self) -> bool:
        """Whether this node is, or may become, a voter; a node that is only a broker observes."""
        return self.quorum.local.can_become_voter

    @classmethod
    def open(cls, seams: Seams, timers: Timers, parts: MetadataParts) -> MetadataService:
        identity, config = parts.identity, parts.config
        log = MetadataLog.open(seams, parts.directory, MetadataLogConfig.from_values(config))
        local = LocalReplica(
            ReplicaKey(identity.node_id, identity.directory_id),
            identity.cluster_id,
            parts.listener,
            tuple(QuorumEndpoint(each.name, each.host, each.port) for each in parts.endpoints),
            can_become_voter=parts.can_become_voter,
            bootstrap_servers=parts.bootstrap_servers,
        )
        quorum = MetadataQuorum(
            log,
            local,
            quorum_config(config),
            seams,
            timers,
            on_fault=parts.on_fault,
            static_voters=parts.static_voters,
            peers=parts.peers,
        )
        committed = CommittedImage()
        quorum.add_listener(committed)
        Snapshotting.from_values(quorum, committed, seams.clock, config)
        registration = ControllerRegistrationRequest(
            controller_id=identity.node_id,
            incarnation_id=random_uuid(seams.random),
            zk_migration_ready=False,
            listeners=listeners(parts.endpoints),
            features=supported_features(),
        )
        controller = Controller(
            quorum,
            committed,
            parts.settings,
            seams,
            timers,
            bootstrap=read_bootstrap(seams.files, parts.directory),
            registration=registration,
        )
        quorum.add_listener(controller)
        return cls(log, quorum, committed, controller, registration)

    def start(self) -> None:
        """Take part in the quorum. Errors of a log that cannot be read are raised from here."""
        self.quorum.start()

    def close(self) -> None:
        """Stop cleanly, after `quorum.shutdown`."""
        self.quorum.close()

    def abandon(self) -> None:
        """Stop as a crash would."""
        self.quorum.abandon()
