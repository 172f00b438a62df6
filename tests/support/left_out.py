"""Changes of rows that leave values out where they stay as they are, and what a table has of them in the end."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from tidelog.spark.outputs.kept_values import GIVEN, KEPT
from tidelog.spark.outputs.staged import DELETED, UNCHANGED, Changes
from tidelog.spark.pipelines.last_changes import LastChanges

TYPES: dict[str, pa.DataType] = {"id": pa.int64(), "at": pa.int64(), "a": pa.string(), "b": pa.string()}
SCHEMA = pa.schema({**TYPES, DELETED: pa.bool_(), UNCHANGED: pa.string()})
UPSERTS = Changes(("id",), "at")
HISTORY = Changes(("id",), "at", history=True)

Row = dict[str, Any]


class Story(NamedTuple):
    """Changes in the order of their source, and what comes of them."""

    changes: list[Row]
    rows: list[tuple[int, str | None, str | None]]
    """Key and values."""
    versions: list[tuple[int, str | None, str | None, int, int | None]]
    """The same, with from when to when."""


def change(key: int, at: int, a: str | None, b: str | None, *, unchanged: str = "", deleted: bool = False) -> Row:
    """`unchanged` names columns, as in "ab"."""
    mark = "".join(KEPT if name in unchanged else GIVEN for name in TYPES) if unchanged else None
    return {"id": key, "at": at, "a": a, "b": b, DELETED: deleted, UNCHANGED: mark}


def story(seed: int, count: int, keys: int = 4) -> Story:
    """Each row is inserted, updated for a while, and deleted; then it may come again."""
    chance = Random(seed)
    state: dict[int, dict[str, str | None]] = {}
    changes: list[Row] = []
    versions: list[tuple[int, str | None, str | None, int, int | None]] = []
    open_versions: dict[int, tuple[int, str | None, str | None, int]] = {}
    for at in range(1, count + 1):
        key = chance.randrange(keys)
        if key in open_versions:
            versions.append((*open_versions.pop(key), at))
        before = state.get(key)
        if before is not None and chance.random() < 0.15:
            del state[key]
            changes.append(change(key, at, None, None, deleted=True))
            continue
        kept = "" if before is None else "".join(name for name in "ab" if chance.random() < 0.5)
        after = {
            name: before[name] if before and name in kept else chance.choice([None, f"{name}{at}"]) for name in "ab"
        }
        state[key] = after
        open_versions[key] = (key, after["a"], after["b"], at)
        given = {name: None if name in kept else value for name, value in after.items()}
        changes.append(change(key, at, given["a"], given["b"], unchanged=kept))
    rows = sorted((key, row["a"], row["b"]) for key, row in state.items())
    versions += [(*each, None) for each in open_versions.values()]
    return Story(changes, rows, sorted(versions, key=lambda each: (each[0], each[3])))


def batches(changes: Sequence[Row], seed: int, size_max: int = 12) -> list[list[Row]]:
    """In pieces of any size."""
    chance, left, found = Random(seed), list(changes), []
    while left:
        size = chance.randint(1, size_max)
        found.append(left[:size])
        left = left[size:]
    return found


def as_a_task_writes(batch: Sequence[Row], how: Changes, size: int = 3) -> list[Row]:
    """What is left of a batch in a task, to which it comes by key and sequence, and in pieces."""
    last = LastChanges("t", how)
    ordered = sorted(batch, key=lambda row: (row["id"], row["at"]))
    found: list[Row] = []
    for start in range(0, len(ordered), size):
        found += last.push(pa.RecordBatch.from_pylist(ordered[start : start + size], schema=SCHEMA)).to_pylist()
    rest = last.finish()
    return found + ([] if rest is None else rest.to_pylist())
