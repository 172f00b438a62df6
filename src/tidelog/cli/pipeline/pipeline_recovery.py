"""`tidelog pipeline recover`: end the transactions of a query that never returns."""

from __future__ import annotations

from tidelog.cli.admin_session import (
    ADVICE,
    CONNECT_TIMEOUT_MS,
    EXIT_REFUSED,
    EXIT_WRONG_QUESTION,
    complain,
    print_json,
    print_line,
)
from tidelog.cli.cluster_login import login_settings
from tidelog.cli.pipeline.pipeline import COMMAND
from tidelog.cli.rendering import Json
from tidelog.client.admin.options import AdminOptions
from tidelog.client.errors import ConfigError, NotReachedError
from tidelog.spark.errors import SinkError
from tidelog.spark.sink.sink_participant import DEFAULT_PREFIX, Participant
from tidelog.spark.sink.sink_recovery import RecoveredSink, recover


def recover_query(query: str, *, bootstrap: str, prefix: str | None, accept_loss: bool, as_json: bool) -> int:
    """0 once nothing of it is open and nothing is lost."""
    try:
        settings = {
            "socket_connection_setup_timeout_ms": CONNECT_TIMEOUT_MS,
            **login_settings(AdminOptions),
            "bootstrap_servers": bootstrap,
        }
        report = recover(query, settings, prefix=prefix or DEFAULT_PREFIX, accept_loss=accept_loss)
    except ConfigError as error:
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)
    except SinkError as error:
        advice = f"; {ADVICE}" if isinstance(error.__cause__, NotReachedError) else ""
        return complain(COMMAND, f"{error}{advice}", EXIT_REFUSED)
    if not report.sinks:
        return complain(COMMAND, f"nothing is known of a query {query} on this cluster", EXIT_REFUSED)
    if as_json:
        print_json(_row(each) for each in report.sinks)
    else:
        for each in report.sinks:
            print_line(_sentence(each))
    for each in report.sinks:
        if each.lost and not accept_loss:
            complain(
                COMMAND, f"{each.identity}: batch {each.last_batch_id} is not whole: {_lost(each.lost)}", EXIT_REFUSED
            )
    return 0 if report.is_complete or accept_loss else EXIT_REFUSED


def _sentence(sink: RecoveredSink) -> str:
    last = (
        "no batch counts yet" if sink.last_batch_id is None else f"batch {sink.last_batch_id} is the last that counts"
    )
    return f"{sink.identity}: {last}; {len(sink.committed)} transactions are committed, {len(sink.aborted)} aborted"


def _lost(participants: tuple[Participant, ...]) -> str:
    records = sum(each.records for each in participants)
    partitions = sorted({f"{topic}-{partition}" for each in participants for topic, partition in each.partitions})
    return f"{records} records of {', '.join(partitions) or 'unknown partitions'} were aborted before they could be committed"


def _row(sink: RecoveredSink) -> dict[str, Json]:
    return {
        "query": sink.identity.query,
        "sink": sink.identity.sink,
        "last_batch_id": sink.last_batch_id,
        "committed": [each.transactional_id for each in sink.committed],
        "aborted": list(sink.aborted),
        "lost": [each.transactional_id for each in sink.lost],
    }
