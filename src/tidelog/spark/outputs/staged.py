"""What one sink has of a batch before it counts: rows that tasks have staged, and everything that an end needs. Pure.

    AttemptName     which attempt of which task, of which batch and run
    StagedPart      what one attempt hands over to the driver
    Manifest        all parts that count of one sink's batch, as a file
    StagedOutput    what a decision says of it: sink, target, and the manifest by path, length and hash
    StagedBatch     the two together: what an `OutputKind` ends

A decision is read by whoever comes next, which may be `recover` on another machine, with the pipeline's file changed or gone.
So a target has all that an end needs, and secrets only as references (`secret_references`). Lists of files are in the manifest:
a record of the topic of decisions stays small however many files a batch has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

VERSION = 1
_CHECKSUM_MODULUS = 1 << 64


class Changes(msgspec.Struct, frozen=True, omit_defaults=True):
    """How rows change a table, where they are not only added to it.

    Rows come with a column `DELETED` more, and with `UNCHANGED` where they may leave values out. But for a history they are
    reduced before the decision: one a key, the last by sequence.
    """

    merge_on: tuple[str, ...]
    sequence_by: str | None = None
    """A column that orders the changes of a key. A change that is older than what the table has is left out."""
    history: bool = False
    """Every version stays, with `VALID_FROM` and `VALID_TO` (SCD 2); the former is the sequence, the latter null for what
    counts now."""


DELETED = "_tidelog_deleted"
UNCHANGED = "_tidelog_unchanged"
"""Which values of a row are not known because they stay as they are: see `kept_values`."""
INTERNAL = frozenset({DELETED, UNCHANGED})
"""Columns of rows that no table has."""
VALID_FROM = "valid_from"
VALID_TO = "valid_to"


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a sink's rows go."""

    kind: str
    """The name of the `OutputKind`."""
    place: str
    """A directory or URL; of a database its URL, with references in place of secrets."""
    table: str = ""
    """Of a database or a catalog."""
    partition_by: tuple[str, ...] = ()
    changes: Changes | None = None
    widens: bool = True
    """Whether a column that is new in the rows is added to the table."""
    table_id: str = ""
    """Of the table that was there when the query started, where tables have one: another one in its place is not ended in."""
    options: Mapping[str, str] = {}
    """More of the kind's own, such as a catalog's properties; secrets as references."""
    storage: Mapping[str, str] = {}
    """Of an object store, by the names that its own tools have: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID; secrets as references."""


class AttemptName(msgspec.Struct, frozen=True):
    """One attempt of one task. No two of a pipeline have the same."""

    run: str
    batch_id: int
    partition: int
    stage_attempt: int
    task_attempt: int

    def __str__(self) -> str:
        """As it is part of the names of files, and the key of staged rows. The batch is first: a directory lists in order."""
        return f"{self.batch_id:010d}-{self.partition:05d}-{self.stage_attempt}-{self.task_attempt}-{self.run}"


class StagedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that is finished, and that nobody reads yet."""

    path: str
    """Relative to the target's place, or to the staging place of the kind; URL-safe as it is."""
    bytes: int
    rows: int
    partition: Mapping[str, str | None] = {}
    """Values of `partition_by`, as text."""
    stats: str = ""
    """JSON of the kind's own, such as Delta's minimum and maximum of columns."""


class StagedPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one attempt has staged in one sink."""

    attempt: str
    rows: int
    checksum: int
    """Of the rows as they will be read: see `row_checksum`."""
    files: tuple[StagedFile, ...] = ()


class Manifest(msgspec.Struct, frozen=True):
    """All that counts of one sink's batch."""

    sink: str
    app_id: str
    """Pipeline, sink and generation: under this name a table remembers the last batch that it has."""
    batch_id: int
    schema: str
    """Of the rows: an Arrow schema, serialised and in base64."""
    parts: tuple[StagedPart, ...]
    version: int = VERSION

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.parts)

    @property
    def checksum(self) -> int:
        return sum_checksums(each.checksum for each in self.parts)

    @property
    def files(self) -> tuple[StagedFile, ...]:
        return tuple(file for part in self.parts for file in part.files)


class StagedOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a decision says of one sink that is no topic."""

    sink: str
    target: Target
    manifest_path: str
    """Absolute, or a URL; the storage options are those of `staging_storage`."""
    manifest_bytes: int
    manifest_sha256: str
    rows: int
    checksum: int
    staging_storage: Mapping[str, str] = {}


class StagedBatch(msgspec.Struct, frozen=True):
    """What is ended: the decision's words, and what the manifest lists."""

    output: StagedOutput
    manifest: Manifest

    @property
    def staging(self) -> str:
        """The directory that the manifest lies in, where kinds stage what does not lie beside its table."""
        return self.output.manifest_path.rpartition("/")[0]


def sum_checksums(parts: Iterable[int]) -> int:
    """Of several parts together; the order does not matter."""
    return sum(parts) % _CHECKSUM_MODULUS


def app_id(pipeline: str, sink: str, generation: str) -> str:
    """The name under which a table remembers batches. The generation is the query's id: another checkpoint begins anew."""
    return f"tidelog/{pipeline}/{sink}/{generation}"
