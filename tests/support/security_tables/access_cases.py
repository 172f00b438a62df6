"""What each API checks: a request, and the rights that it needs; `access_data`, `access_topics`, `access_groups` and
`access_administration` have them all.

A request names what its caller may have a right to (`orders`, `workers`, `payments`) and, where it can name more, something that
nobody is ever given a right to (`secret`, `hidden`), so that one answer shows what is granted and what is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.model.acl import AclOperation as Op, ResourceType as Kind
from tidelog.wire.records import Record, build_batch

Values = Mapping[str, Any]
Right = tuple[Op, Kind, str]

TOPIC, SECRET, ABSENT, DOOMED = "orders", "secret", "absent", "doomed"
GROUP, HIDDEN = "workers", "hidden"
TRANSACTION = "payments"
CLUSTER = "kafka-cluster"
UNKNOWN_ID = bytes(range(16))
BOTH = (TOPIC, SECRET)
TIME_MS = 1_690_000_000_000


class Case(NamedTuple):
    """One request. `rights` are exactly those that let it pass."""

    label: str
    api_key: int
    version: int
    values: Values
    rights: tuple[Right, ...]


def batch(*, is_transactional: bool = False) -> bytes:
    rows = [Record(0, TIME_MS, None, b"v")]
    if not is_transactional:
        return build_batch(rows)
    return build_batch(rows, is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)


def on(kind: Kind, name: str, *operations: Op) -> tuple[Right, ...]:
    return tuple((operation, kind, name) for operation in operations)


def topic(*operations: Op, name: str = TOPIC) -> tuple[Right, ...]:
    return on(Kind.TOPIC, name, *operations)


def group(*operations: Op, name: str = GROUP) -> tuple[Right, ...]:
    return on(Kind.GROUP, name, *operations)


def cluster(*operations: Op) -> tuple[Right, ...]:
    return on(Kind.CLUSTER, CLUSTER, *operations)


def transaction(*operations: Op) -> tuple[Right, ...]:
    return on(Kind.TRANSACTIONAL_ID, TRANSACTION, *operations)
