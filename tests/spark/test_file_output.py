"""Files as a sink: staged out of sight, renamed once decided, and told of by a manifest at the end."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.spark.outputs.kind import OutputKind, OutputRefusedError, kind_of
from tidelog.spark.outputs.manifest_store import manifest_of, read_manifest, write_manifest
from tidelog.spark.outputs.staged import AttemptName, StagedBatch, StagedPart, Target, app_id
from tidelog.spark.outputs.storage import Storage

APP = app_id("orders", "archive", "generation")
TYPES: dict[str, pa.DataType] = {"day": pa.date32(), "n": pa.int64(), "text": pa.string()}
SCHEMA = pa.schema(TYPES)
ROWS: list[dict[str, object]] = [
    {"day": None, "n": 1, "text": "a"},
    {"day": dt.date(2026, 1, 1), "n": 2, "text": None},
    {"day": dt.date(2026, 1, 1), "n": 3, "text": "c"},
]


@pytest.fixture
def kind(tmp_path: Path) -> OutputKind:
    return kind_of(Target("files", str(tmp_path / "out"), partition_by=("day",)), str(tmp_path / "staging"), {})


def test_rows_are_seen_once_the_batch_is_ended_and_no_sooner(kind: OutputKind, tmp_path: Path) -> None:
    batch = _staged(kind, 3)

    kind.check(batch)
    before = _visible(tmp_path / "out")
    kind.end(batch)

    assert before == []
    assert [each.partition("/")[0] for each in _visible(tmp_path / "out")] == [
        "day=2026-01-01",
        "day=__HIVE_DEFAULT_PARTITION__",
    ]
    assert kind.last_batch(APP) == 3
    assert kind.read_back(batch) == (3, batch.output.checksum)


def test_each_combination_of_partition_values_has_its_rows_in_their_order(tmp_path: Path) -> None:
    target = Target("files", str(tmp_path / "out"), partition_by=("day", "text"))
    kind = kind_of(target, str(tmp_path / "staging"), {})
    days, texts = [None, dt.date(2026, 1, 1)], [None, "", "a"]
    rows = [{"day": days[n % 2], "n": n, "text": texts[n % 3]} for n in range(13)]
    attempt = kind.open_attempt(AttemptName("run", 0, 0, 0, 0), SCHEMA)
    attempt.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    files = attempt.hand_over().files

    expected: dict[tuple[str | None, str | None], list[int]] = {}
    for n in range(13):
        day = days[n % 2]
        # As Spark writes the empty text: the directory "text=" would keep it from reading any other.
        expected.setdefault((None if day is None else str(day), texts[n % 3] or None), []).append(n)
    found = {
        (each.partition["day"], each.partition["text"]): pq.read_table(tmp_path / "out" / each.path)["n"].to_pylist()
        for each in files
    }
    assert found == expected
    assert len(files) == len(expected)


@pytest.mark.parametrize(
    "given", [pa.binary(), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.duration("us")]
)
def test_a_partition_column_whose_values_name_no_directory_is_refused(tmp_path: Path, given: pa.DataType) -> None:
    kind = kind_of(Target("files", str(tmp_path / "out"), partition_by=("p",)), str(tmp_path / "staging"), {})
    schema = pa.schema([pa.field("p", given), pa.field("n", pa.int64())])

    (sentence,) = kind.validate(schema)

    assert sentence.startswith("partition_by names the column p of the type ")
    with pytest.raises(OutputRefusedError, match="no names of directories"):
        kind.prepare(schema)


def test_a_value_that_is_too_long_for_a_directory_is_refused_in_the_task(tmp_path: Path) -> None:
    kind = kind_of(Target("files", str(tmp_path / "out"), partition_by=("text",)), str(tmp_path / "staging"), {})
    attempt = kind.open_attempt(AttemptName("run", 0, 0, 0, 0), SCHEMA)

    # Two bytes each, and each of those three in percent encoding.
    with pytest.raises(OutputRefusedError, match=r"of 60 characters in text.* would have 365 bytes, and 255 are"):
        attempt.write(pa.RecordBatch.from_pylist([{"day": None, "n": 1, "text": "\u00e4" * 60}], schema=SCHEMA))
    attempt.abort()

    assert _visible(tmp_path / "out") == []


def test_rows_with_an_empty_text_in_a_partition_are_counted_as_they_are_read(tmp_path: Path) -> None:
    kind = kind_of(Target("files", str(tmp_path / "out"), partition_by=("text",)), str(tmp_path / "staging"), {})
    attempt = kind.open_attempt(AttemptName("run", 0, 0, 0, 0), SCHEMA)
    attempt.write(pa.RecordBatch.from_pylist([{"day": None, "n": 1, "text": ""}], schema=SCHEMA))
    manifest = manifest_of("archive", APP, 0, SCHEMA, [attempt.hand_over()])
    batch = write_manifest(kind.target, kind.staging, {}, manifest, run="run")
    kind.end(batch)

    assert kind.read_back(batch) == (1, batch.output.checksum)


def test_an_end_that_is_asked_for_again_changes_nothing(kind: OutputKind, tmp_path: Path) -> None:
    batch = _staged(kind, 0)
    kind.end(batch)
    once = _visible(tmp_path / "out")

    kind.end(read_manifest(batch.output))

    assert _visible(tmp_path / "out") == once


def test_an_end_goes_on_where_another_one_died_between_two_files(kind: OutputKind, tmp_path: Path) -> None:
    batch = _staged(kind, 0)
    first = batch.manifest.files[0]
    place = tmp_path / "out" / first.path.split("/", 3)[3]
    place.parent.mkdir(parents=True)
    (tmp_path / "out" / first.path).rename(place)

    kind.end(batch)

    assert kind.read_back(batch) == (3, batch.output.checksum)


@pytest.mark.parametrize("moved", [0, 1])
def test_of_two_that_end_a_batch_at_once_neither_stops(
    kind: OutputKind, moved: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = _staged(kind, 0)
    move, moves = Storage.move, [0]

    def overtaken(storage: Storage, source: str, target: str) -> None:
        moves[0] += 1
        if moves[0] == moved + 1:
            kind_of(kind.target, kind.staging, {}).end(batch)
        move(storage, source, target)

    monkeypatch.setattr(Storage, "move", overtaken)
    kind.end(batch)

    assert moves[0] > len(batch.manifest.files)
    assert kind.read_back(batch) == (3, batch.output.checksum)
    assert list((tmp_path / "out").rglob("*.part")) == []


def test_a_decided_file_that_is_gone_is_refused_and_put_right_by_its_return(kind: OutputKind, tmp_path: Path) -> None:
    batch = _staged(kind, 0)
    place = tmp_path / "out" / batch.manifest.files[0].path
    content = place.read_bytes()
    place.unlink()

    with pytest.raises(OutputRefusedError, match="is gone, which batch 0 has rows in"):
        kind.end(batch)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    kind.end(batch)

    assert kind.read_back(batch) == (3, batch.output.checksum)


def test_a_staged_file_that_is_gone_is_refused_before_the_decision(kind: OutputKind, tmp_path: Path) -> None:
    batch = _staged(kind, 0)
    (tmp_path / "out" / batch.manifest.files[0].path).unlink()

    with pytest.raises(OutputRefusedError, match="removed or changed"):
        kind.check(batch)


def test_a_manifest_that_was_changed_since_is_not_what_was_decided(kind: OutputKind, tmp_path: Path) -> None:
    batch = _staged(kind, 0)
    path = Path(batch.output.manifest_path)
    path.write_bytes(path.read_bytes().replace(b'"batch_id":0', b'"batch_id":1'))

    with pytest.raises(OutputRefusedError, match="was changed since"):
        read_manifest(batch.output)


def test_a_sweep_takes_what_no_decision_names(kind: OutputKind, tmp_path: Path) -> None:
    named, orphan = _staged(kind, 0), _staged(kind, 1)

    swept = kind.sweep(frozenset(each.attempt for each in named.manifest.parts), older_than_s=0.0)

    assert swept.files == len(orphan.manifest.files)
    kind.check(named)


def test_two_sinks_that_write_to_one_directory_leave_each_others_files_alone(kind: OutputKind, tmp_path: Path) -> None:
    other = kind_of(kind.target, str(tmp_path / "staging of another sink"), {})
    first, second = _staged(kind, 0), _staged(other, 0, app_id("orders", "another", "generation"))

    kind.end(first)
    kind.sweep(frozenset(), older_than_s=0.0)
    other.check(second)
    other.end(second)

    assert len(_visible(tmp_path / "out")) == 4
    assert list((tmp_path / "out" / "_staging").rglob("part-*")) == []


def _staged(kind: OutputKind, batch_id: int, app: str = APP) -> StagedBatch:
    parts: list[StagedPart] = []
    for task, rows in enumerate((ROWS[:1], ROWS[1:])):
        attempt = kind.open_attempt(AttemptName("run", batch_id, task, 0, 0), SCHEMA)
        attempt.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
        parts.append(attempt.hand_over())
    manifest = manifest_of("archive", app, batch_id, SCHEMA, parts)
    return write_manifest(kind.target, kind.staging, {}, manifest, run="run")


def _visible(place: Path) -> list[str]:
    """As Spark would list it."""
    found = (each.relative_to(place) for each in place.rglob("*.parquet"))
    return sorted(str(each) for each in found if not any(part.startswith("_") for part in each.parts))
