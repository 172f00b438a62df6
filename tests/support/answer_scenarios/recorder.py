"""Asks a node, and keeps every frame that was sent and answered."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Self, TypeVar

from tests.support.recorded_answers import Conversation, Step, Talk, talking
from tidelog.controller.metadata_service import supported_features
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.apis import api
from tidelog.wire.compression import Compression
from tidelog.wire.frames import read_response, request_frame
from tidelog.wire.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.producers import InitProducerIdResponse
from tidelog.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.records import Record, build_batch
from tidelog.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

TIME_MS = 1_690_000_000_000
FIRST = "a"
UNKNOWN_ID = bytes(range(16))
NO_PRODUCER = -1
# A tag that no message has, with three bytes.
UNKNOWN_TAG = b"\x01\x4d\x03abc"
GROUP, TRANSACTION = 0, 1


class Recorder:
    """One conversation while it is held."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = dict(settings or {})
        self._talking = talking(self._settings)
        self.steps: list[Step] = []
        self._correlation_id = 0
        self._throwaways = 0
        self.topic_ids: dict[str, bytes] = {}
        self.cluster_id = ""

    def __enter__(self) -> Self:
        self._talk: Talk = self._talking.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._talking.__exit__(None, None, None)

    @property
    def conversation(self) -> Conversation:
        return Conversation(self._settings, self.steps)

    # --- what is noted -----------------------------------------------------------------------------------------------------

    def send(self, label: str, *frames: bytes, on: str = FIRST) -> None:
        """All of them in one piece."""
        data = b"".join(frames)
        self.steps.append(Step(">", on, data, label))
        self._talk.send(on, data)

    def receive(self, label: str, on: str = FIRST) -> bytes | None:
        received = self._talk.receive(on)
        self.steps.append(Step("x" if received is None else "<", on, received or b"", label))
        return received

    def settle(self, label: str) -> None:
        """What was sent so far has been read, and whatever waits, waits."""
        self.steps.append(Step("~", "", b"", label))
        self._talk.settle()

    def advance(self, label: str, ms: int) -> None:
        self.steps.append(Step("+", str(ms), b"", label))
        self._talk.advance(ms)

    def left_over(self) -> list[str]:
        return self._talk.left_over()

    # --- short ways --------------------------------------------------------------------------------------------------------

    def frame(self, request: Request, version: int, client_id: str | None = "client") -> bytes:
        self._correlation_id += 1
        return request_frame(request, version, self._correlation_id, client_id)

    def ask(
        self,
        label: str,
        request: Request,
        version: int,
        answer: type[R],
        *,
        on: str = FIRST,
        client_id: str | None = "client",
    ) -> R:
        """One request, one answer."""
        self.send(label, self.frame(request, version, client_id), on=on)
        return self.answered(label, answer, version, on=on)

    def answered(self, label: str, answer: type[R], version: int, *, on: str = FIRST) -> R:
        received = self.receive(label, on)
        assert received is not None, label
        found = read_response(received, answer.api_key, version)[1]
        assert isinstance(found, answer)
        return found

    def tell(self, label: str, *frames: bytes, on: str | None = None) -> None:
        """On a connection of its own unless one is named: one answer to each frame, or the end of the connection."""
        name = on or self.throwaway()
        self.send(label, *frames, on=name)
        for _ in frames:
            if self.receive(label, name) is None:
                return

    def throwaway(self) -> str:
        self._throwaways += 1
        return f"t{self._throwaways}"

    def bent(self, label: str, request: Request, version: int) -> None:
        """The same request too short, too long, and with tags that nobody knows."""
        whole = self.frame(request, version)[4:]
        label = f"{label} v{version}"
        for end in sorted({9, len(whole) // 2, len(whole) - 1}):
            self.tell(f"{label}, cut at {end} of {len(whole)}", sized(whole[:end]))
        self.tell(f"{label}, bytes behind its end", sized(whole + b"behind"))
        if version in type(request).flexible:
            assert whole.endswith(b"\0")
            self.tell(f"{label}, an unknown tag", sized(whole[:-1] + UNKNOWN_TAG))
            # The header's tags lie behind the client id.
            (size,) = struct.unpack_from(">h", whole, 8)
            tags = 10 + max(0, size)
            assert whole[tags] == 0
            self.tell(f"{label}, an unknown tag in its header", sized(whole[:tags] + UNKNOWN_TAG + whole[tags + 1 :]))

    # --- a cluster ---------------------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: Sequence[int] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> bytes:
        """A topic; its id."""
        label = f"create {name}"
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if replicas else partitions,
            replication_factor=-1 if replicas else 1,
            assignments=[
                CreatableReplicaAssignment(partition_index=each, broker_ids=list(replicas))
                for each in range(partitions)
            ]
            if replicas
            else [],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        answer = self.ask(label, CreateTopicsRequest(topics=[topic]), 4, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0, answer
        known = self.metadata(label, name)
        self.topic_ids[name] = known.topics[0].topic_id
        return self.topic_ids[name]

    def metadata(self, label: str, *names: str) -> MetadataResponse:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in names],
            include_topic_authorized_operations=False,
        )
        return self.ask(label, request, 12, MetadataResponse)

    def register(self, broker_id: int, rack: str | None, *, is_fenced: bool = False) -> int:
        """Another broker, which serves nothing; its epoch."""
        label = f"register broker {broker_id}"
        self.cluster_id = self.cluster_id or self.metadata(label).cluster_id or ""
        on = f"controller-{broker_id}"
        registered = self.ask(
            label,
            BrokerRegistrationRequest(
                broker_id=broker_id,
                cluster_id=self.cluster_id,
                incarnation_id=bytes([broker_id]) * 16,
                listeners=[
                    Listener(name="PLAINTEXT", host=f"node-{broker_id}.example", port=9092, security_protocol=0)
                ],
                features=supported_features(),
                rack=rack,
                log_dirs=[bytes([0x50 + broker_id]) * 16],
            ),
            4,
            BrokerRegistrationResponse,
            on=on,
        )
        assert registered.error_code == 0
        heartbeat = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=registered.broker_epoch,
            current_metadata_offset=registered.broker_epoch,
            want_fence=is_fenced,
            want_shut_down=False,
        )
        assert self.ask(label, heartbeat, 1, BrokerHeartbeatResponse, on=on).is_fenced == is_fenced
        return registered.broker_epoch

    def unregister(self) -> None:
        """The others are no more, so that the node need not wait for them when it stops."""
        for on in [step.name for step in self.steps if step.name.startswith("controller-") and step.kind == "<"][::2]:
            broker_id = int(on.removeprefix("controller-"))
            self.ask("unregister", UnregisterBrokerRequest(broker_id=broker_id), 0, UnregisterBrokerResponse, on=on)

    def ask_until(self, label: str, request: Request, version: int, answer: type[R], *, on: str = FIRST) -> R:
        """Asked again until there is no error: of these answers the last is noted."""
        data = self.frame(request, version)
        while True:
            self._talk.send(on, data)
            received = self._talk.receive(on)
            assert received is not None
            found = read_response(received, request.api_key, version)[1]
            assert isinstance(found, answer)
            if not _errors(found):
                self.steps += [Step("?", on, data, label), Step("<", on, received, label)]
                return found
            self._talk.settle()

    def coordinate(self, kind: int, key: str) -> None:
        """The node coordinates this key from here on; the topic that this takes is made."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        self.ask_until(f"coordinator of {key}", request, 6, FindCoordinatorResponse)
        if kind == GROUP:
            group = OffsetFetchRequestGroup(group_id=key, topics=[])
            fetch = OffsetFetchRequest(groups=[group], require_stable=False)
            self.ask_until(f"offsets of {key}", fetch, 8, OffsetFetchResponse)


def _errors(answer: Response) -> bool:
    match answer:
        case FindCoordinatorResponse():
            return any(each.error_code for each in answer.coordinators)
        case OffsetFetchResponse():
            return any(each.error_code for each in answer.groups)
        case InitProducerIdResponse():
            return bool(answer.error_code)
    raise TypeError(type(answer))


def sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def versions_of(request: type[Request]) -> range:
    """Those that a node announces and answers."""
    announced = api(request.api_key).announced_versions
    return range(max(announced[0], request.versions[0]), announced[1] + 1)


def a_batch(
    *values: str,
    producer_id: int = NO_PRODUCER,
    epoch: int = -1,
    sequence: int = -1,
    codec: Compression = Compression.NONE,
    key: bytes | None = None,
    is_transactional: bool = False,
    time_ms: int = TIME_MS,
) -> bytes:
    return build_batch(
        [Record(number, time_ms + number, key, value.encode(), ()) for number, value in enumerate(values)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
