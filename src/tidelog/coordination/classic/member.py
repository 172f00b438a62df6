# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""A member of a classic group: what it said of itself when it joined, what it was assigned, what it waits for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from tidelog.coordination.deadlines import Action
from tidelog.model.pending import Pending
from tidelog.wire.messages.groups_classic import JoinGroupRequestProtocol, JoinGroupResponse, SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]
"""The names that a member supports, the one that it likes best first, each with the bytes that it tells the leader."""


def protocols_of(requested: Iterable[JoinGroupRequestProtocol]) -> Protocols:
    """What a request names. A name that comes twice counts once: its votes could not be counted otherwise."""
    named: dict[str, bytes] = {}
    for protocol in requested:
        named.setdefault(protocol.name, protocol.metadata)
    return tuple(named.items())


class ParkedJoin:
    """A JoinGroup that waits for the other members, and the version in which its sender reads the answer."""

    __slots__ = ("answer", "api_version")

    def __init__(self, api_version: int) -> None:
        self.answer: Pending[JoinGroupResponse] = Pending()
        self.api_version = api_version


class ClassicMember:
    """A member. Only `ClassicGroup` parks its requests, since it counts those who wait."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "parked_join",
        "parked_sync",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_action",
        "session_key",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.parked_join: ParkedJoin | None = None
        self.parked_sync: Pending[SyncGroupResponse] | None = None
        # Until its first generation. It may not know its id yet, so that it cannot send heartbeats.
        self.is_new = False
        # Set by `Sessions` and reused, so that a heartbeat allocates neither a key nor a callback.
        self.session_key: Hashable = None
        self.session_action: Action | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def awaits_join(self) -> bool:
        return self.parked_join is not None

    @property
    def awaits_sync(self) -> bool:
        return self.parked_sync is not None

    @property
    def is_alive(self) -> bool:
        """Whether its session is suspended because it waits for an answer of ours. Not that of a new member, whose client may be
        gone: its retries would pile up.
        """
        return not self.is_new and (self.awaits_join or self.awaits_sync)

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it tells the leader under a protocol. Empty where it does not support that one."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""
