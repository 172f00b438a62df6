"""What became of files that a Delta table has no more, by what its log says: pure.

    left = what_left(commits, missing, there)
    removal_of(path, there, left)       the change that took its rows away; None where all of them are there, in other files

A compaction removes files and adds others with the same rows, and says of both that no data has changed. So rows of a file that
was compacted are there as long as nothing was done to what it was compacted into.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from tidelog.spark.outputs.kind import OutputRefusedError


class Commit(msgspec.Struct, frozen=True):
    """One version of a table."""

    version: int
    operation: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    is_change: bool
    """Whether rows came or went, and did not only move to other files."""


def commit_of(version: int, actions: Sequence[Mapping[str, Any]]) -> Commit:
    """Of a version's actions as its log has them."""
    added = [each["add"] for each in actions if "add" in each]
    removed = [each["remove"] for each in actions if "remove" in each]
    operations = [each["commitInfo"].get("operation") for each in actions if "commitInfo" in each]
    return Commit(
        version,
        str(next(filter(None, operations), "a commit without a name")),
        tuple(unquote(each["path"]) for each in added),
        tuple(unquote(each["path"]) for each in removed),
        any(each.get("dataChange", True) for each in (*added, *removed)),
    )


def what_left(commits: Iterable[Commit], missing: Collection[str], there: Collection[str]) -> dict[str, Commit]:
    """Which version removed each file, as far as it takes to know what became of those that are missing. `commits` begin with the
    newest; what is left out of the answer was removed before the oldest."""
    wanted = set(missing) - set(there)
    left: dict[str, Commit] = {}
    for commit in commits:
        if wanted.issubset(left):
            break
        for path in commit.removed:
            left.setdefault(path, commit)
    return left


def removal_of(path: str, there: Collection[str], left: Mapping[str, Commit]) -> Commit | None:
    """OutputRefusedError where nobody knows: the log does not go back so far, or rows were changed after they had moved."""
    commit = left.get(path)
    if commit is None:
        raise OutputRefusedError(f"{path} left the table before the oldest version that its log still has")
    if commit.is_change:
        return commit
    moved = list(commit.added)
    while moved:
        each = moved.pop()
        if each in there:
            continue
        later = left.get(each)
        if later is None or later.is_change:
            raise OutputRefusedError(f"{path} was compacted in version {commit.version}, and rows were changed since")
        moved += later.added
    return None
