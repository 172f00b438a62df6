"""Open transactions of queries, seen from outside: whose they are, and for how long they have been open.

Those who read what is committed wait for the oldest open transaction of a partition. A query that never comes back may have left
one, so that the start of another one tells of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, cast

import msgspec

from tidelog.client.admin import AsyncAdmin
from tidelog.client.admin.transactions import TransactionListing, TransactionState
from tidelog.client.background import Background
from tidelog.client.errors import ClientError, UnsupportedError
from tidelog.client.seams import ClientSeams
from tidelog.model.clock import system_now_ms
from tidelog.spark.client_settings import common_settings
from tidelog.spark.sink.sink_participant import (
    DEFAULT_PREFIX,
    DecidingCluster,
    SinkIdentity,
    may_be_decided_at,
    parse_transactional_id,
)

# Younger ones most likely belong to a batch that is being written.
OLD_MS_MIN = 60_000
# Whoever starts a query waits for it.
LOOK_TIMEOUT_S = 30.0
# A sentence names so many topics.
_NAMED_MAX = 5


class OpenElsewhere(msgspec.Struct, frozen=True):
    """What one query has open on topics that another one is about to write to or read from."""

    identity: SinkIdentity
    topics: tuple[str, ...]
    age_ms: int
    """Of the oldest."""
    count: int
    decided_at: DecidingCluster | None = None
    """Where that is another cluster: only from there they can be ended."""

    def __str__(self) -> str:
        more = f" and {len(self.topics) - _NAMED_MAX} more" if len(self.topics) > _NAMED_MAX else ""
        return (
            f"the query {self.identity} has {self.count} transactions open on {', '.join(self.topics[:_NAMED_MAX])}{more} for "
            f"{_duration(self.age_ms)}, and readers of what is committed wait for them: if it does not come back, end them by "
            f"{recover_command(self.identity, self.decided_at)}"
        )


def recover_command(identity: SinkIdentity, decided_at: DecidingCluster | None = None) -> str:
    """What a person has to type; at the cluster of the decisions, where that is another one."""
    prefix = "" if identity.prefix == DEFAULT_PREFIX else f" --prefix {identity.prefix}"
    bootstrap = "" if decided_at is None else f" --bootstrap {decided_at.address}"
    where = "" if decided_at is None else f" at the cluster {decided_at.cluster_id}, which has the decisions about them"
    return f"`tidelog pipeline recover {identity.query}{prefix}{bootstrap}`{where}"


async def list_open(admin: AsyncAdmin, ids_start: str, *, age_ms_min: int = 0) -> list[TransactionListing]:
    """The open transactions whose ids begin like this; those that are as old, where the cluster knows ages."""
    states = [TransactionState.ONGOING]
    duration_ms = age_ms_min or None
    try:
        listed = await admin.list_transactions(
            states=states, duration_ms=duration_ms, pattern=f"{re.escape(ids_start)}.*"
        )
    except UnsupportedError:
        # Apache Kafka before 4.1 does not look at names.
        listed = await admin.list_transactions(states=states, duration_ms=duration_ms)
    return [each for each in listed if each.transactional_id.startswith(ids_start)]


async def decided_here(
    admin: AsyncAdmin, transactional_ids: Collection[str], prefix: str = DEFAULT_PREFIX
) -> frozenset[str]:
    """Those of them whose decisions may lie on this cluster; of others nothing can be known here, and nothing must be done."""
    parsed = (parse_transactional_id(each, prefix) for each in transactional_ids)
    if all(each is None or each.decided_at is None for each in parsed):
        return frozenset(transactional_ids)
    cluster_id = (await admin.describe_cluster()).cluster_id
    return frozenset(each for each in transactional_ids if may_be_decided_at(cluster_id, each, prefix))


async def open_elsewhere(
    admin: AsyncAdmin,
    topics: Collection[str],
    prefix: str = DEFAULT_PREFIX,
    *,
    but: SinkIdentity | None = None,
    age_ms_min: int = OLD_MS_MIN,
    now_ms: int | None = None,
) -> list[OpenElsewhere]:
    """What queries other than `but` have open on these topics, and have had for so long, the oldest first. ClientError where the
    cluster does not tell."""
    wanted = frozenset(topics)
    until_ms = system_now_ms() if now_ms is None else now_ms
    by_owner: dict[tuple[SinkIdentity, DecidingCluster | None], list[str]] = {}
    for each in await list_open(admin, f"{prefix}.", age_ms_min=age_ms_min):
        parsed = parse_transactional_id(each.transactional_id, prefix)
        if parsed is not None and parsed.identity != but:
            by_owner.setdefault((parsed.identity, parsed.decided_at), []).append(each.transactional_id)
    found: list[OpenElsewhere] = []
    for (identity, decided_at), names in by_owner.items():
        described = [
            each
            for each in (await admin.describe_transactions(names)).values()
            if not isinstance(each, ClientError) and each.state is TransactionState.ONGOING
        ]
        there = [each for each in described if any(topic in wanted for topic, _ in each.partitions)]
        if there:
            hit = sorted({topic for each in there for topic, _ in each.partitions if topic in wanted})
            oldest_ms = min(each.start_time_ms or until_ms for each in there)
            age_ms = max(0, until_ms - oldest_ms)
            found.append(OpenElsewhere(identity, tuple(hit), age_ms, len(there), decided_at))
    return sorted(found, key=lambda each: -each.age_ms)


def tell_open_elsewhere(
    client_settings: Mapping[str, object],
    topics: Collection[str],
    prefix: str = DEFAULT_PREFIX,
    *,
    but: SinkIdentity | None = None,
    age_ms_min: int = OLD_MS_MIN,
) -> list[str]:
    """The same as sentences, for the start of a query; one that says so where the cluster does not tell."""
    background = Background.acquire()

    async def look() -> list[OpenElsewhere]:
        async with AsyncAdmin.on(ClientSeams.of(background.loop), **admin_settings(client_settings)) as admin:
            return await open_elsewhere(admin, topics, prefix, but=but, age_ms_min=age_ms_min)

    try:
        # One answer of several nodes after another.
        return [str(each) for each in background.call(look(), LOOK_TIMEOUT_S)]
    except ClientError as error:
        return [
            f"whether older transactions are open on {', '.join(sorted(topics)[:_NAMED_MAX])} is not known: {error}"
        ]
    finally:
        background.release()


def admin_settings(client_settings: Mapping[str, object]) -> dict[str, Any]:
    """For an admin that waits no longer than the producer may."""
    settings = common_settings(client_settings)
    if "max_block_ms" in client_settings:
        settings["default_api_timeout_ms"] = max(1, cast("int", client_settings["max_block_ms"]))
    return settings


def _duration(age_ms: int) -> str:
    seconds = age_ms // 1000
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
