"""`tidelog pipeline recover`: end what a query that never returns has left open, or what all of them have."""

from __future__ import annotations

from typing import Any

import msgspec

from tidelog.cli.admin_session import (
    ADVICE,
    CONNECT_TIMEOUT_MS,
    EXIT_REFUSED,
    EXIT_WRONG_QUESTION,
    QuestionError,
    complain,
    print_json,
    print_line,
)
from tidelog.cli.cluster_login import login_settings
from tidelog.cli.moments import parse_duration_ms
from tidelog.cli.pipeline.pipeline import COMMAND
from tidelog.cli.rendering import Json
from tidelog.client.admin.options import AdminOptions
from tidelog.client.errors import ConfigError, NotReachedError
from tidelog.spark.errors import SinkError
from tidelog.spark.sink.sink_participant import DEFAULT_PREFIX, Participant
from tidelog.spark.sink.sink_recovery import RecoveredSink, RecoveryReport, recover, recover_all

# Longer than a batch takes, and shorter than anybody wants readers to wait.
DEFAULT_OLDER_THAN = "10m"


class Recovery(msgspec.Struct, frozen=True):
    """What was typed."""

    query: str | None
    is_for_all: bool = False
    older_than: str | None = None
    prefix: str | None = None
    accept_loss: bool = False
    skip_sinks: tuple[str, ...] = ()
    skips_unreached: bool = False


def recover_queries(asked: Recovery, *, bootstrap: str, as_json: bool) -> int:
    """0 once nothing of them is open and nothing is lost."""
    try:
        settings = {
            "socket_connection_setup_timeout_ms": CONNECT_TIMEOUT_MS,
            **login_settings(AdminOptions),
            "bootstrap_servers": bootstrap,
        }
        report = _recovered(asked, settings)
    except (ConfigError, QuestionError) as error:
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)
    except SinkError as error:
        advice = f"; {ADVICE}" if isinstance(error.__cause__, NotReachedError) else ""
        return complain(COMMAND, f"{error}{advice}", EXIT_REFUSED)
    if not (report.sinks or report.elsewhere or asked.is_for_all):
        return complain(COMMAND, f"nothing is known of a query {asked.query} on this cluster", EXIT_REFUSED)
    if as_json:
        print_json(_row(each) for each in report.sinks)
    else:
        for each in report.sinks:
            print_line(_sentence(each))
        if not (report.sinks or report.elsewhere):
            print_line("no query has left anything open for so long")
    for each in report.sinks:
        if each.lost and not asked.accept_loss:
            complain(
                COMMAND, f"{each.identity}: batch {each.last_batch_id} is not whole: {_lost(each.lost)}", EXIT_REFUSED
            )
        for stopped in each.stopped:
            complain(COMMAND, stopped, EXIT_REFUSED)
    for sentence in report.elsewhere:
        complain(COMMAND, sentence, EXIT_REFUSED)
    has_all = not any((each.lost and not asked.accept_loss) or each.stopped for each in report.sinks)
    return 0 if has_all and not report.elsewhere else EXIT_REFUSED


def _recovered(asked: Recovery, settings: dict[str, Any]) -> RecoveryReport:
    prefix = asked.prefix or DEFAULT_PREFIX
    if asked.is_for_all:
        if asked.query is not None:
            raise QuestionError("a query, or --all: not both")
        if asked.accept_loss or asked.skip_sinks or asked.skips_unreached:
            raise QuestionError("--accept-loss and --skip-sink are for one query: name it")
        older_than_ms = parse_duration_ms(asked.older_than or DEFAULT_OLDER_THAN)
        return recover_all(settings, older_than_ms=older_than_ms, prefix=prefix)
    if asked.query is None:
        raise QuestionError("name a query, or say --all")
    if asked.older_than is not None:
        raise QuestionError("--older-than belongs to --all: a query that is named is recovered now")
    if asked.skips_unreached and not asked.skip_sinks:
        raise QuestionError("--skip-unreached belongs to --skip-sink: it says which sink")
    return recover(
        asked.query,
        settings,
        prefix=prefix,
        accept_loss=asked.accept_loss,
        skip_sinks=asked.skip_sinks,
        skips_unreached=asked.skips_unreached,
    )


def _sentence(sink: RecoveredSink) -> str:
    last = (
        "no batch counts yet" if sink.last_batch_id is None else f"batch {sink.last_batch_id} is the last that counts"
    )
    ended = f", {len(sink.ended)} tables have it" if sink.ended else ""
    skipped = f"; it counts without {', '.join(sink.skipped)}" if sink.skipped else ""
    counts = f"{len(sink.committed)} transactions are committed{ended}, {len(sink.aborted)} aborted"
    return f"{sink.identity}: {last}; {counts}{skipped}"


def _lost(participants: tuple[Participant, ...]) -> str:
    records = sum(each.records for each in participants)
    partitions = sorted({f"{topic}-{partition}" for each in participants for topic, partition in each.partitions})
    has_more = any(each.partition_count > len(each.partitions) for each in participants)
    where = (", ".join(partitions) or "unknown partitions") + (" and others" if has_more else "")
    return f"{records} records of {where} were aborted before they could be committed"


def _row(sink: RecoveredSink) -> dict[str, Json]:
    return {
        "query": sink.identity.query,
        "sink": sink.identity.sink,
        "last_batch_id": sink.last_batch_id,
        "committed": [each.transactional_id for each in sink.committed],
        "ended": list(sink.ended),
        "aborted": list(sink.aborted),
        "lost": [each.transactional_id for each in sink.lost],
        "stopped": list(sink.stopped),
        "skipped": list(sink.skipped),
    }
