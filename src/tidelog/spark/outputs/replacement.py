"""Files of batches in a table that others are to take the place of, found by their names: pure.

    paths = files_to_replace({path: (attempt, owner), ...}, replaced, place)

A name has the attempt, with its batch and run, and the sink of a checkpoint that has staged it. What was compacted, or changed by
others, has other names: then rows of a batch cannot be told apart, and are not replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidelog.spark.outputs.kind import OutputRefusedError

_RUN_PARTS = 4


class ReplacedRows(msgspec.Struct, frozen=True):
    """What one batch, or an earlier replacement, has in a table."""

    batch_id: int
    """As names have it: of a replacement its number."""
    run: str
    owner: str
    """As `parquet_staging.owner_of` makes it."""
    files: int


def files_to_replace(
    staged: Mapping[str, tuple[str, str]], replaced: Sequence[ReplacedRows], place: str
) -> tuple[str, ...]:
    """Of all staged files that a table has, those of these rows. OutputRefusedError where some of them are not there."""
    found: dict[tuple[int, str, str], list[str]] = {}
    for path, (attempt, owner) in staged.items():
        named = _batch_and_run(attempt)
        if named is not None:
            found.setdefault((*named, owner), []).append(path)
    paths: list[str] = []
    for each in replaced:
        files = found.get((each.batch_id, each.run, each.owner), [])
        if len(files) != each.files:
            raise OutputRefusedError(
                f"{place} has {len(files)} of {each.files} files of batch {each.batch_id}: they were compacted or changed since, "
                "so that its rows cannot be told from those of others"
            )
        paths += files
    return tuple(sorted(paths))


def _batch_and_run(attempt: str) -> tuple[int, str] | None:
    """None for what is no attempt of a task, as files of a merge."""
    parts = attempt.split("-", _RUN_PARTS)
    return (int(parts[0]), parts[_RUN_PARTS]) if len(parts) > _RUN_PARTS and parts[0].isdecimal() else None
