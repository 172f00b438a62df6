"""Which batches a backfill replaces and what it reads again, by audits that are made up; and every reason why it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.outputs.kind import OutputRefusedError
from tidelog.spark.outputs.parquet_staging import owner_of
from tidelog.spark.outputs.replacement import ReplacedRows, files_to_replace
from tidelog.spark.outputs.staged import AttemptName, Changes, StagedOutput, Target
from tidelog.spark.pipelines.backfill_plan import BackfillFacts, BackfillPlan, Refusal, plan_backfill
from tidelog.spark.sink.audit_entry import (
    AuditEntry,
    PartitionRange,
    Replacement,
    SinkAudit,
    decode_audit,
    decode_replacement,
    encode_replacement,
)
from tidelog.spark.source.offset_ranges import OffsetRange

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
KEPT = ": it is kept for as long as the topic __tidelog_pipeline_audit says"
ONLY = ": only where a pipeline starts at earliest, and the topic still has its first record"
TABLE = Target("delta", "/t", table_id="id")


def output(target: Target = TABLE, staging: str = "/staging/t") -> StagedOutput:
    return StagedOutput("t", target, f"{staging}/manifest-1.json", 1, "x", 5, 7)


def batch(batch_id: int, *reads: tuple[TopicPartition, int, int], files: int = 2, **more: Any) -> AuditEntry:
    ranges = tuple(PartitionRange(place.topic, place.partition, start, end) for place, start, end in reads)
    account = SinkAudit("t", "delta", "/t", 5, 7, files=files, staged=output())
    entry = AuditEntry("p", "query", f"run{batch_id}", batch_id, ranges, "hash", (account,), "", 0)
    return msgspec.structs.replace(entry, **more)


# Offsets 0 to 40 of one partition, and of another one what two of the batches have read.
BATCHES = (
    batch(0, (P0, -1, 10), (P1, -1, 5)),
    batch(1, (P0, 10, 20)),
    batch(2, (P0, 20, 30), (P1, 5, 8)),
    batch(3, (P0, 30, 40)),
)


def replacement(number: int, *batches: int) -> Replacement:
    return Replacement("p", "query", "t", number, f"backfill-{number}", batches, (), "", output(staging="/b"), 1, 0)


def plan(
    wanted: Mapping[TopicPartition, tuple[int, int]],
    entries: Sequence[AuditEntry] = BATCHES,
    replacements: Sequence[Replacement] = (),
    starts: Mapping[TopicPartition, int] | None = None,
    *,
    begins_at_earliest: bool = True,
) -> BackfillPlan | Refusal:
    return plan_backfill(
        BackfillFacts(
            sink="t",
            entries=entries,
            replacements=replacements,
            wanted=[OffsetRange(place, *span) for place, span in wanted.items()],
            starts={P0: 0, P1: 0} if starts is None else starts,
            begins_at_earliest=begins_at_earliest,
        )
    )


def planned(*given: Any, **more: Any) -> BackfillPlan:
    found = plan(*given, **more)
    assert isinstance(found, BackfillPlan), found
    return found


def ids(found: BackfillPlan) -> list[int]:
    return [each.batch_id for each in found.batches]


def test_whole_batches_are_taken_and_what_lies_between_them_is_not() -> None:
    found = planned({P0: (15, 16), P1: (6, 7)})

    assert ids(found) == [1, 2]
    assert found.ranges == (OffsetRange(P0, 10, 30), OffsetRange(P1, 5, 8))
    assert found.replaced == tuple(ReplacedRows(n, f"run{n}", owner_of("/staging/t"), 2) for n in (1, 2))
    assert (found.number, found.is_ahead, set(found.table_ids)) == (1, False, {"id"})
    apart = planned({P0: (35, 99), P1: (0, 1)})
    assert ids(apart) == [0, 3]
    assert apart.ranges == (OffsetRange(P0, 0, 10), OffsetRange(P0, 30, 40), OffsetRange(P1, 0, 5))
    assert apart.is_ahead


def test_a_batch_without_rows_is_read_again_and_has_no_files() -> None:
    empty = batch(1, (P0, 10, 20), sinks=(SinkAudit("t", "delta", "/t", 0, 0),))

    found = planned({P0: (10, 20)}, [BATCHES[0], empty])

    assert (ids(found), found.replaced) == ([1], ())


def test_who_touches_a_batch_that_was_replaced_with_others_touches_all_of_them() -> None:
    found = planned({P0: (10, 20)}, replacements=[replacement(1, 0, 1), replacement(2, 1, 2, 0)])

    assert ids(found) == [0, 1, 2]
    assert found.number == 3
    assert found.replaced == (ReplacedRows(2, "backfill-2", owner_of("/b"), 1),)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"entries": []}, "the audit knows no batch of it"),
        ({"wanted": {P0: (50, 60)}}, "no batch that is finished has read records of this time"),
        ({"wanted": {}}, "no batch that is finished has read records of this time"),
        (
            {"entries": [BATCHES[0], BATCHES[2]], "wanted": {P0: (5, 25)}},
            f"the audit has no batch that has read offsets 10 to 19 of orders-0{KEPT}",
        ),
        (
            {"entries": BATCHES[1:], "wanted": {P0: (5, 25)}},
            f"the audit has no batch that has read offsets 5 to 9 of orders-0{KEPT}",
        ),
        (
            {"entries": [*BATCHES, batch(4, (P0, 0, 7))]},
            "orders-0 was deleted and made again since the first batches",
        ),
        (
            {"entries": [*BATCHES, batch(4, input_hash=None)]},
            "what batch 4 has read is not known: Spark's checkpoint could not be read then",
        ),
        (
            {"starts": {P0: 15, P1: 0}},
            "batch 1 has read offsets from 10 on of orders-0, which begins at 15 by now",
        ),
        ({"starts": {P1: 0}}, "batch 1 has read orders-0, which is not there any more"),
        (
            {"begins_at_earliest": False, "wanted": {P0: (0, 5)}},
            f"batch 0 is the first one, and nobody knows where it began in orders-0{ONLY}",
        ),
        (
            {"entries": [BATCHES[0], batch(1, (P0, 10, 20), lost_rows=3)]},
            "batch 1 is not whole: 3 rows were lost, which `recover --accept-loss` accepted",
        ),
        (
            {"entries": [BATCHES[0], batch(1, (P0, 10, 20), sinks=())]},
            "batch 1 has written nothing to a sink t: it had other sinks then",
        ),
    ],
)
def test_what_cannot_be_replaced_exactly_is_refused(given: dict[str, Any], sentence: str) -> None:
    found = plan(**{"wanted": {P0: (10, 20)}, **given})

    assert isinstance(found, Refusal)
    assert sentence in found.reasons


def test_rows_that_were_left_out_or_merged_are_not_replaced() -> None:
    account = BATCHES[1].sinks[0]
    merged = msgspec.structs.replace(TABLE, changes=Changes(("id",)))
    for changed, sentence in (
        ({"is_skipped": True}, "batch 1 counts without the sink t, which `recover --skip-sink` has left out"),
        ({"staged": output(merged)}, "batch 1 has not only added its rows to /t"),
        ({"kind": "files"}, "batch 1 has not only added its rows to /t"),
    ):
        sinks = (msgspec.structs.replace(account, **changed),)
        found = plan({P0: (10, 20)}, [BATCHES[0], batch(1, (P0, 10, 20), sinks=sinks)])

        assert found == Refusal((sentence,))


def test_files_are_found_by_attempt_run_and_owner_and_have_to_be_all_there() -> None:
    def name(batch_id: int, run: str) -> str:
        return str(AttemptName(run, batch_id, 0, 0, 1))

    staged = {
        "a": (name(1, "run1"), "me"),
        "b": (name(1, "run1"), "me"),
        "c": (name(1, "run2"), "me"),
        "d": (name(1, "run1"), "another"),
        "e": (name(2, "run1"), "me"),
        "f": ("merge-0000000001", "me"),
    }

    assert files_to_replace(staged, [ReplacedRows(1, "run1", "me", 2)], "/t") == ("a", "b")
    assert files_to_replace(staged, [], "/t") == ()
    with pytest.raises(
        OutputRefusedError, match=r"^/t has 2 of 3 files of batch 1: they were compacted or changed since"
    ):
        files_to_replace(staged, [ReplacedRows(1, "run1", "me", 3)], "/t")


def test_releases_that_know_no_replacements_pass_over_them() -> None:
    made = replacement(1, 0, 1)

    assert decode_replacement(encode_replacement(made)) == made
    assert decode_audit(encode_replacement(made)) is None
    assert decode_replacement(b'{"version":1}') is decode_replacement(b"no json") is None
