"""What every conversation has: a connection, a group, the topics, and notes of what was told."""

from __future__ import annotations

from types import TracebackType
from typing import Self, TypeVar

from tests.support.raw_client import RawClient
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.schema import Request, Response

R = TypeVar("R", bound=Response)
Told = tuple[object, ...]

TOPICS = {"orders": 3, "payments": 1}
"""What there is to read on both sides: topics with their numbers of partitions."""
STRANGE_ID = bytes(range(16))
REBALANCE_MS = 8_000
# Ids that a test makes up are shorter than those that a broker gives out.
_GIVEN_ID_CHARACTERS_MIN = 16


def error_name(error_code: int) -> str:
    return ErrorCode.of(error_code).name


class Notes:
    """Asks down one connection, one request after another, and keeps what was told."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.told: list[Told] = []
        self._client = RawClient(bootstrap)
        self._names: dict[str, str] = {}
        asked = [MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in TOPICS]
        metadata = MetadataRequest(topics=asked, include_topic_authorized_operations=False)
        found = self.call(metadata, MetadataResponse, 12).topics
        self.topic_ids = {topic.name or "": topic.topic_id for topic in found}
        self._topic_names = {topic_id: name for name, topic_id in self.topic_ids.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.__exit__(kind, error, trace)

    def call(self, request: Request, answer: type[R], version: int) -> R:
        return self._client.call(request, answer, version)

    def note(self, *told: object) -> None:
        self.told.append(told)

    def group_or(self, group: str | None) -> str:
        return self.group if group is None else group

    def name(self, member_id: str | None) -> str | None:
        """What a member is called in the notes."""
        if not member_id or len(member_id) < _GIVEN_ID_CHARACTERS_MIN:
            return member_id
        return self._names.setdefault(member_id, f"m{len(self._names)}")

    def topic_name(self, name: str, topic_id: bytes) -> str:
        return name or self._topic_names.get(topic_id, "an unknown one")

    def topic_id(self, name: str) -> bytes:
        return self.topic_ids.get(name, STRANGE_ID)
