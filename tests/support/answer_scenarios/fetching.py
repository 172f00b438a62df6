"""Fetch requests as scenarios write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.support.answer_scenarios.recorder import FIRST, UNKNOWN_ID, Recorder
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)


def fetch_of(
    talk: Recorder,
    version: int,
    topics: Mapping[str, Mapping[int, int]],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50_000,
    partition_max_bytes: int = 50_000,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
    forgotten: Mapping[str, Sequence[int]] | None = None,
    replica: ReplicaState | None = None,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    log_start_offset: int = -1,
    rack_id: str = "",
) -> FetchRequest:
    """Partitions by topic, each with the offset it is read from. Topics are named or numbered as the version has it."""
    by_id = version >= 13
    has_state = version >= 15
    return FetchRequest(
        replica_id=-1 if replica is None or has_state else replica.replica_id,
        replica_state=replica if replica is not None and has_state else ReplicaState(),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic="" if by_id else name,
                topic_id=talk.topic_ids.get(name, UNKNOWN_ID) if by_id else bytes(16),
                partitions=[
                    FetchPartition(
                        partition=index,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=last_fetched_epoch if version >= 12 else -1,
                        log_start_offset=log_start_offset,
                        partition_max_bytes=partition_max_bytes,
                    )
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ],
        forgotten_topics_data=[
            ForgottenTopic(
                topic="" if by_id else name,
                topic_id=talk.topic_ids.get(name, UNKNOWN_ID) if by_id else bytes(16),
                partitions=list(partitions),
            )
            for name, partitions in (forgotten or {}).items()
        ],
        rack_id=rack_id if version >= 11 else "",
    )


def fetched(talk: Recorder, label: str, request: FetchRequest, version: int, *, on: str = FIRST) -> FetchResponse:
    return talk.ask(label, request, version, FetchResponse, on=on)
