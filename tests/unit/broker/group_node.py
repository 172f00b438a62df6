"""A node that coordinates groups, on a simulated disk and a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from tests.support.data_node import DataNode
from tidelog.broker.groups.group_coordinator import GroupCoordinator
from tidelog.broker.requests.caller import Authorizer
from tidelog.controller.image_delta import ImageDelta
from tidelog.model.config import ConfigKeys, ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.group_coordinator_config import GROUP_COORDINATOR_KEYS
from tidelog.model.internal_topics import CONSUMER_OFFSETS
from tidelog.model.pending import Pending
from tidelog.model.share_group_config import SHARE_GROUP_KEYS
from tidelog.model.streams_group_config import STREAMS_GROUP_KEYS
from tidelog.storage.seams import Seams
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord
from tidelog.wire.schema import MetadataRecord, Request, Response

T = TypeVar("T")
R = TypeVar("R", bound=Response)

HOST, PORT = "broker.example", 9092


class HeldSlowWork:
    """Slow work that is done when a test says so."""

    def __init__(self) -> None:
        self._held: list[tuple[Callable[[], Any], Callable[[Any], None] | None]] = []

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None = None) -> None:
        self._held.append((work, then))

    def release(self) -> None:
        while self._held:
            work, then = self._held.pop(0)
            found = work()
            if then is not None:
                then(found)


class InternalTopics:
    """Internal topics that are there already, or that cannot be made for this reason."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE

    def ensure(self, _topic: str) -> ErrorCode:
        return self.error


class NoStates:
    """What share coordinators keep of groups that are none of theirs."""

    def delete_group_states(self, _group_id: str) -> ErrorCode:
        return ErrorCode.NONE


class GroupNode(DataNode):
    """Leads all groups from the start, unless told not to."""

    def __init__(self, *, coordinates: bool = True, authorizer: Authorizer | None = None, **settings: str) -> None:
        super().__init__(authorizer=authorizer)
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.internal_topics = InternalTopics()
        self.group_states: Any = NoStates()
        self.streams_topics: Any = None
        self.groups = self._coordinator(self.seams)
        self.register_broker(self.node_id, HOST, PORT)
        self.commit(FeatureLevelRecord(name="group.version", feature_level=1))
        if coordinates:
            self.create_topic(CONSUMER_OFFSETS)

    def commit(self, *records: MetadataRecord) -> None:
        before = self.image
        super().commit(*records)
        delta = ImageDelta(before)
        for record in records:
            delta.apply(record, self.image.offset)
        self.groups.follow(self.image, delta)

    def _coordinator(self, seams: Seams) -> GroupCoordinator:
        keys = ConfigKeys([*GROUP_COORDINATOR_KEYS.values(), *SHARE_GROUP_KEYS.values(), *STREAMS_GROUP_KEYS.values()])
        config: ConfigValues = keys.parse({"group.initial.rebalance.delay.ms": "0", **self._settings})
        return GroupCoordinator(self, config, seams, self.timers, nullcontext())

    def start_loading(self) -> Callable[[], None]:
        """A coordinator that has just been elected; it has loaded when the returned function is called."""
        held = HeldSlowWork()
        self.groups = self._coordinator(replace(self.seams, slow_work=held))
        self.groups.follow(self.image)
        return held.release

    def tell(self, handler: Callable[[Any, Any, Any], Any], request: Request, answer: type[R], version: int) -> R:
        """What a client of this version reads of the answer, to a request that it can write."""
        sent = decode(type(request), version, encode(request, version))
        response = self.ask(handler, sent, version)
        if isinstance(response, Pending):
            assert response.is_complete, "the answer is still to come"
            response = response.value
        return decode(answer, version, encode(response, version))
