"""What changes make of a table, in plain Python: all of them again, in the order of their sequence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Change(NamedTuple):
    key: int
    sequence: int
    value: str | None
    """None deletes."""


class Version(NamedTuple):
    key: int
    value: str
    valid_from: int
    valid_to: int | None


State = dict[int, tuple[int, str]]


def reduced(batch: Sequence[Change]) -> list[Change]:
    """One of a key, the last by sequence, as tasks do it; the later one of two at the same."""
    found: dict[int, Change] = {}
    for change in batch:
        if change.key not in found or change.sequence >= found[change.key].sequence:
            found[change.key] = change
    return list(found.values())


def upserted(state: Mapping[int, tuple[int, str]], batch: Sequence[Change]) -> State:
    found = dict(state)
    for change in reduced(batch):
        if change.key in found and found[change.key][0] > change.sequence:
            continue
        if change.value is None:
            found.pop(change.key, None)
        else:
            found[change.key] = (change.sequence, change.value)
    return found


def versioned(changes: Iterable[Change]) -> list[Version]:
    """All versions that all changes make, in the order of their sequence; of two at one sequence the later one counts."""
    events: dict[int, dict[int, str | None]] = {}
    for change in changes:
        events.setdefault(change.key, {})[change.sequence] = change.value
    found = []
    for key, at in events.items():
        order = sorted(at)
        for start, end in zip(order, [*order[1:], None], strict=True):
            value = at[start]
            if value is not None:
                found.append(Version(key, value, start, end))
    return sorted(found)
