"""`tidelog pipeline audit`: what each batch was made of and what came of it; the batch of a row; and sinks read again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import msgspec

from tidelog.cli.admin_session import (
    ADVICE,
    CONNECT_TIMEOUT_MS,
    EXIT_REFUSED,
    EXIT_WRONG_QUESTION,
    complain,
    print_json,
    print_line,
    print_table,
)
from tidelog.cli.cluster_login import login_settings
from tidelog.cli.pipeline.pipeline import COMMAND
from tidelog.cli.rendering import Json
from tidelog.client.consumer.consumer import Consumer
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.errors import ClientError, ConfigError, NotReachedError
from tidelog.spark.errors import SinkError
from tidelog.spark.pipelines.audit_log import PipelineAudit, batches_of_row, read_audit, starting_offsets
from tidelog.spark.pipelines.audit_verification import Outcome, Verified, verify_sink
from tidelog.spark.sink.audit_entry import AuditEntry, PartitionRange, Replacement, SinkAudit
from tidelog.spark.source.partition_offsets import to_json

# Nothing is different, as far as it can be told.
EXIT_UNKNOWN = 3
# As many as fit a screen; --batch shows any other.
_SHOWN_MAX = 20


class AuditQuestion(msgspec.Struct, frozen=True):
    """What was typed."""

    pipeline: str
    batch: int | None = None
    row: str | None = None
    query: str | None = None
    starts: bool = False
    """Where a pipeline begins that goes on behind it."""

    def __str__(self) -> str:
        of_query = "" if self.query is None else f", query {self.query}"
        if self.batch is not None:
            return f"batch {self.batch} of {self.pipeline}{of_query}"
        return f"a batch of {self.pipeline}{of_query}" + (f" with {self.row}" if self.row else "")

    def answer(self, log: PipelineAudit) -> list[AuditEntry]:
        """A batch that is asked for by its number is the newest query's; a row may be of any. SinkError for what names no row."""
        if self.row is not None:
            found = batches_of_row(log.entries if self.query is None else log.of_query(self.query), self.row)
            return found or log.of_file(self.row)
        entries = log.of_query(self.query)
        return entries if self.batch is None else [each for each in entries if each.batch_id == self.batch]


def audit_pipeline(asked: AuditQuestion, *, verify: bool, bootstrap: str, as_json: bool) -> int:
    """0 where the batch is known, and everything that was read again is the same; 1 where something is different, 3 where nothing
    is, and something cannot be told."""
    pipeline = asked.pipeline
    if asked.batch is not None and asked.row is not None:
        return complain(COMMAND, "give --batch or --row, one of them", EXIT_WRONG_QUESTION)
    if asked.starts and (asked.row is not None or verify):
        return complain(COMMAND, "--starting-offsets goes with --batch and --query alone", EXIT_WRONG_QUESTION)
    try:
        settings = {
            "socket_connection_setup_timeout_ms": CONNECT_TIMEOUT_MS,
            **login_settings(ConsumerOptions),
            "bootstrap_servers": bootstrap,
        }
        log = read_audit(settings, pipeline)
    except ConfigError as error:
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)
    except (ClientError, SinkError) as error:
        advice = f"; {ADVICE}" if isinstance(error, NotReachedError) else ""
        return complain(COMMAND, f"the audit of {pipeline} cannot be read: {error}{advice}", EXIT_REFUSED)
    if asked.starts:
        return _print_starts(asked, log, settings)
    try:
        chosen = asked.answer(log)
    except SinkError as error:
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)
    if not chosen:
        return complain(COMMAND, f"nothing is known of {asked} on this cluster", EXIT_REFUSED)
    found = [_found(log, each, settings if verify else None) for each in chosen]
    if as_json:
        print_json(_row(*each) for each in found)
    elif asked.batch is not None or asked.row is not None:
        for each in found:
            _print_whole(*each)
    else:
        _print_table(found)
        others = [each for each in log.queries if each != chosen[0].query]
        if others:
            print_line(f"all of query {chosen[0].query}; --query shows those of {', '.join(others)}")
    return _told(found)


def _print_starts(asked: AuditQuestion, log: PipelineAudit, settings: dict[str, object]) -> int:
    """As the option startingOffsets takes it."""
    entries = log.of_query(asked.query)
    if not entries:
        return complain(COMMAND, f"nothing is known of {asked} on this cluster", EXIT_REFUSED)
    topics = sorted({each.topic for entry in entries for each in entry.input})
    try:
        with Consumer(**settings, allow_auto_create_topics=False) as consumer:
            partitions = [place for topic in topics for place in consumer.partitions_for(topic)]
        found = starting_offsets(entries, partitions, asked.batch)
    except (ClientError, SinkError) as error:
        return complain(COMMAND, str(error), EXIT_REFUSED)
    print_line(to_json(found))
    return 0


_Replaced = Mapping[str, Replacement]
_Found = tuple[AuditEntry, list[Verified] | None, _Replaced]
"""A batch, what was read again of it, and by sink what has taken the place of its rows."""


def _found(log: PipelineAudit, entry: AuditEntry, settings: dict[str, object] | None) -> _Found:
    """Of a batch whose rows were replaced, what has taken their place is read. Without settings nothing is."""
    replaced = {each.sink: made for each in entry.sinks if (made := log.replacement_of(entry, each.sink)) is not None}
    if settings is None:
        return entry, None, replaced
    accounts = [replaced[each.sink].account if each.sink in replaced else each for each in entry.sinks]
    return entry, [verify_sink(each, settings) for each in accounts], replaced


def _told(found: Sequence[_Found]) -> int:
    code = 0
    unknown: dict[tuple[str, str], list[int]] = {}
    for entry, verified, _ in found:
        for each in verified or ():
            if each.outcome is Outcome.DIFFERENT:
                what = f"batch {entry.batch_id} of {entry.pipeline}: the sink {each.sink}"
                how = each.reason or f"it has {each.rows} rows"
                code = complain(COMMAND, f"{what} does not have the rows of the batch: {how}", EXIT_REFUSED)
            elif each.outcome is Outcome.UNKNOWN:
                unknown.setdefault((each.sink, each.reason), []).append(entry.batch_id)
    for (sink, reason), batches in unknown.items():
        which = f"batch {batches[0]}" if len(batches) == 1 else f"{len(batches)} batches"
        unclear = complain(COMMAND, f"the sink {sink} cannot be verified in {which}: {reason}", EXIT_UNKNOWN)
        code = code or unclear
    return code


def _print_table(found: Sequence[_Found]) -> None:
    left_out = len(found) - _SHOWN_MAX
    rows = []
    for each, verified, replaced in found[-_SHOWN_MAX:]:
        sinks = ", ".join(
            f"{sink.sink} {sink.rows:,}{_by(sink, replaced)}{_mark(sink, verified)}" for sink in each.sinks
        )
        rows.append([each.batch_id, _time(each.finished_ms), _count(each.input), sinks])
    if left_out > 0:
        print_line(f"the last {_SHOWN_MAX} of {len(found)} batches; --batch N shows any, --json all")
    print_table(["batch", "finished", "records in", "rows out"], rows)


def _print_whole(entry: AuditEntry, verified: Sequence[Verified] | None, replaced: _Replaced) -> None:
    print_line(
        f"batch {entry.batch_id} of {entry.pipeline}: finished {_time(entry.finished_ms)}, "
        f"{max(0, entry.finished_ms - entry.started_ms)} ms after it began"
    )
    print_line(f"  query {entry.query}, run {entry.run}, code {entry.code_version or 'unknown'}")
    for each in entry.input:
        print_line(f"  from {_range(each)}")
    for sink in entry.sinks:
        files = f" in {_counted(sink.files, 'file')}" if sink.files else ""
        skipped = ", skipped" if sink.is_skipped else ""
        mark = _mark(sink, verified)
        rows = f"{_counted(sink.rows, 'row')}{files}, checksum {sink.checksum:016x}"
        where = "" if sink.cluster is None else f" on {sink.cluster.place}"
        print_line(f"  to {sink.sink} ({sink.kind} {sink.target}{where}): {rows}{skipped}{mark}")
        for each in sink.ranges:
            print_line(f"     within {_range(each)}")
        if (made := replaced.get(sink.sink)) is not None:
            what = f"{_counted(made.staged.rows, 'row')} in {_counted(made.files, 'file')}, code {made.code_version}"
            print_line(f"     replaced by backfill {made.number} with batches {_numbers(made)}: {what}")
    if entry.lost_rows:
        print_line(
            f"  without {_counted(entry.lost_rows, 'row')} for topics, which were aborted before they could be committed: "
            "somebody has accepted that"
        )
    if entry.replayed_with is not None:
        print_line(
            f"  run again it had {entry.replayed_with.rows:,} rows, checksum {entry.replayed_with.checksum:016x}: "
            "those of the first time count"
        )


def _by(sink: SinkAudit, replaced: _Replaced) -> str:
    made = replaced.get(sink.sink)
    return "" if made is None else f", replaced by backfill {made.number}"


def _numbers(made: Replacement) -> str:
    return ", ".join(map(str, made.batches))


def _mark(sink: SinkAudit, verified: Sequence[Verified] | None) -> str:
    for each in verified or ():
        if each.sink == sink.sink:
            match each.outcome:
                case Outcome.SAME:
                    return ": verified"
                case Outcome.DIFFERENT:
                    return f": DIFFERENT, {each.reason or f'{each.rows} rows are there'}"
                case Outcome.UNKNOWN:
                    return f": cannot be verified, {each.reason}"
    return ""


def _row(entry: AuditEntry, verified: Sequence[Verified] | None, replaced: _Replaced) -> dict[str, Json]:
    outcomes = {each.sink: each for each in verified or ()}
    sinks: list[Json] = []
    for each in entry.sinks:
        sink: dict[str, Json] = {
            "sink": each.sink,
            "kind": each.kind,
            "target": each.target,
            "rows": each.rows,
            "checksum": f"{each.checksum:016x}",
            "files": each.files,
            "skipped": each.is_skipped,
            "partial": each.is_partial,
            "cluster": None if each.cluster is None else each.cluster.place,
            "ranges": [_range_row(found) for found in each.ranges],
        }
        if (made := replaced.get(each.sink)) is not None:
            sink["replaced_by"] = {
                "backfill": made.number,
                "batches": made.batches,
                "rows": made.staged.rows,
                "checksum": f"{made.staged.checksum:016x}",
                "finished_ms": made.finished_ms,
                "code_version": made.code_version,
            }
        if each.sink in outcomes:
            sink["verified"] = outcomes[each.sink].outcome.value
            sink["reason"] = outcomes[each.sink].reason
        sinks.append(sink)
    return {
        "pipeline": entry.pipeline,
        "batch_id": entry.batch_id,
        "query": entry.query,
        "run": entry.run,
        "code_version": entry.code_version,
        "started_ms": entry.started_ms,
        "decided_ms": entry.decided_ms,
        "finished_ms": entry.finished_ms,
        "input": [_range_row(each) for each in entry.input],
        "input_hash": entry.input_hash,
        "sinks": sinks,
        "lost_rows": entry.lost_rows,
        "replayed_rows": None if entry.replayed_with is None else entry.replayed_with.rows,
    }


def _range_row(each: PartitionRange) -> Json:
    return {"topic": each.topic, "partition": each.partition, "start": each.start, "end": each.end}


def _range(each: PartitionRange) -> str:
    start = "its beginning" if each.start < 0 else f"{each.start}"
    return f"{each.topic}-{each.partition} from {start} to {each.end - 1}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _count(ranges: Sequence[PartitionRange]) -> str:
    """An offset is not always a record: transaction markers and what was compacted have some, too."""
    if any(each.start < 0 for each in ranges):
        return "from the beginning"
    return f"{sum(each.end - each.start for each in ranges):,} at most"


def _time(ms: int) -> str:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
