"""Who takes part in an exactly-once write: the tasks' open transactions, and the transactional ids that tell them apart.

    <prefix>.<scope>.<run>.<partition>.<stage attempt>.<task attempt>          a task attempt's transaction
    <prefix>.<scope>.<run>~<deciding cluster>.<partition>.<stage ...>.<...>    the same, on another cluster than the decisions
    <prefix>.<scope>.<run>.<worker>.<n>                                        the same, of earlier releases
    <prefix>.<scope>.decider                                                   the driver's, for the decisions

The scope is the query, and the sink where a query has several deciders: `orders`, `orders~late`. Whoever cleans up goes by these
names, so that they have to be read back without a doubt: everything but the prefix is escaped, and no part has a dot of its own.
The prefix stays as it is, since access is granted by it.

Where the decisions lie on another cluster, the id names it: whoever finds the transaction open must not take the lack of a
decision beside it for the lack of a decision. Ids of earlier releases do not.

An id may be used for another transaction only once the one before has ended, and never twice within a batch: InitProducerId on it
would abort what a decision counts on.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection
from typing import NamedTuple

import msgspec

DEFAULT_PREFIX = "tidelog-spark"

# Of one task. What is lost in the end is told by a few names; a decision lists every task.
PARTITIONS_NAMED_MAX = 5

# Of an id, which may have 32767 characters, and is shown to people.
_ADDRESS_CHARACTERS_MAX = 200

_PLAIN = re.compile(r"[A-Za-z0-9_-]")
_DECIDER = "decider"
# Scope and run, then worker and number, or three numbers. With another count of parts an id belongs to a longer prefix.
_WORKER_PARTS = 4
_NUMBERED_PARTS = 5


class Participant(msgspec.Struct, frozen=True, omit_defaults=True):
    """One task attempt's transaction: everything is written, and the end is left to the driver."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    records: int = 0
    checksum: int = 0
    """Of its rows: see `row_checksum`."""
    partition_count: int = 0
    """How many it has written to."""
    partitions: tuple[tuple[str, int], ...] = ()
    """Some of them, for the sentence that names what is lost."""

    @staticmethod
    def of(
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        records: int,
        partitions: Collection[tuple[str, int]],
        checksum: int = 0,
    ) -> Participant:
        """With as many names of partitions as are kept: a decision over a thousand tasks has to fit into one record."""
        return Participant(
            transactional_id,
            producer_id,
            producer_epoch,
            records,
            checksum,
            len(partitions),
            tuple(heapq.nsmallest(PARTITIONS_NAMED_MAX, partitions)),
        )


class SinkIdentity(msgspec.Struct, frozen=True):
    """Whose decisions: the key in the topic of decisions is (query, sink)."""

    query: str
    """The id of a streaming query, or `txnAppId`."""
    sink: str = ""
    """Which of several targets of the query; empty where there is one."""
    prefix: str = DEFAULT_PREFIX
    """The option `transactionalIdPrefix`."""

    @property
    def decider_id(self) -> str:
        """The driver's transactional id. Whoever has it last may decide."""
        return f"{self.prefix}.{self._scope}.{_DECIDER}"

    @property
    def ids_start(self) -> str:
        """What the transactional ids of all runs begin with."""
        return f"{self.prefix}.{self._scope}."

    @property
    def all_ids_start(self) -> str:
        """A prefix that all sinks of the query share, and perhaps ids of others: each match has to be checked."""
        return f"{self.prefix}.{escape(self.query)}"

    @property
    def _scope(self) -> str:
        return escape(self.query) + (f"~{escape(self.sink)}" if self.sink else "")

    def __str__(self) -> str:
        return f"{self.query} ({self.sink})" if self.sink else self.query


class DecidingCluster(NamedTuple):
    """The cluster on which the decisions about a transaction lie."""

    cluster_id: str
    address: str
    """Its bootstrap servers, for a person."""

    @staticmethod
    def at(cluster_id: str, bootstrap_servers: str) -> DecidingCluster:
        """With as many of its servers as an id has room for, and at least one."""
        servers = bootstrap_servers.split(",")
        while len(servers) > 1 and len(",".join(servers)) > _ADDRESS_CHARACTERS_MAX:
            servers.pop()
        return DecidingCluster(cluster_id, ",".join(servers))

    def __str__(self) -> str:
        return f"{self.cluster_id}@{self.address}"


class ParticipantId(NamedTuple):
    """A task's transactional id, taken apart."""

    identity: SinkIdentity
    run: str
    decided_at: DecidingCluster | None
    """None: the cluster that the transaction is on. An earlier release may have had its decisions elsewhere nevertheless."""
    attempt: tuple[str, ...]


def attempt_id(
    identity: SinkIdentity,
    run: str,
    partition: int,
    stage_attempt: int,
    task_attempt: int,
    decided_at: DecidingCluster | None = None,
) -> str:
    """The id of one attempt of a task, as its own context numbers it: the same in every batch of a run, and no two attempts of
    a batch on one cluster have the same."""
    where = "" if decided_at is None else f"~{escape(str(decided_at))}"
    return f"{identity.ids_start}{escape(run)}{where}.{partition}.{stage_attempt}.{task_attempt}"


def transactional_id(identity: SinkIdentity, run: str, worker: str, n: int) -> str:
    """The id of the `n`th task that a worker process runs in a batch, from 0. `worker` names the process, as a UUID does."""
    return f"{identity.ids_start}{escape(run)}.{escape(worker)}.{n}"


def parse_transactional_id(transactional_id: str, prefix: str = DEFAULT_PREFIX) -> ParticipantId | None:
    """What an id was made of; None for one of another prefix, of a decider, or of nobody here."""
    if not transactional_id.startswith(f"{prefix}."):
        return None
    scope, _, rest = transactional_id.removeprefix(f"{prefix}.").partition(".")
    run_part, *attempt = rest.split(".")
    numbers = attempt[1:] if len(attempt) + 2 == _WORKER_PARTS else attempt
    if len(attempt) + 2 not in (_WORKER_PARTS, _NUMBERED_PARTS) or not all(map(_is_number, numbers)) or not attempt[0]:
        return None
    query, has_sink, sink = scope.partition("~")
    run, has_cluster, cluster = run_part.partition("~")
    if not (query and run) or bool(has_sink) != bool(sink) or bool(has_cluster) != bool(cluster):
        return None
    identity = SinkIdentity(_unescaped(query), _unescaped(sink), prefix)
    cluster_id, _, address = _unescaped(cluster).partition("@")
    decided_at = DecidingCluster(cluster_id, address) if cluster else None
    return ParticipantId(identity, _unescaped(run), decided_at, tuple(map(_unescaped, attempt)))


def may_be_decided_at(cluster_id: str, transactional_id: str, prefix: str = DEFAULT_PREFIX) -> bool:
    """False where the id says that the decisions about it lie on another cluster: what is recorded here tells nothing of it."""
    parsed = parse_transactional_id(transactional_id, prefix)
    return parsed is None or parsed.decided_at is None or parsed.decided_at.cluster_id == cluster_id


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdigit()


def escape(part: str) -> str:
    """A name without dots and tildes; letters, digits, `-` and `_` stay as they are."""
    return "".join(
        each if _PLAIN.fullmatch(each) else "".join(f"%{byte:02X}" for byte in each.encode()) for each in part
    )


def _unescaped(part: str) -> str:
    return re.sub(
        r"(?:%[0-9A-F]{2})+",
        lambda found: bytes.fromhex(found.group().replace("%", "")).decode(errors="replace"),
        part,
    )
