"""`tidelog pipeline replay-dead-letters`: letters back to where they came from. Shows what would go; sends only when told to."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.cli.admin_session import (
    ADVICE,
    EXIT_REFUSED,
    EXIT_WRONG_QUESTION,
    QuestionError,
    complain,
    print_json,
    print_line,
    print_table,
)
from tidelog.cli.moments import parse_time
from tidelog.cli.pipeline.pipeline import COMMAND, load
from tidelog.client.errors import ClientError, ConfigError, NotReachedError
from tidelog.client.kafka_properties import in_kafka_names
from tidelog.spark.errors import OptionError
from tidelog.spark.pipelines.dead_letter_replay import (
    ReasonCount,
    ReplayChoice,
    ReplayReport,
    replay_dead_letters,
)
from tidelog.spark.pipelines.errors import PipelineFileError, ReplayError
from tidelog.spark.pipelines.validation import wrong_arguments

# As many as fit a screen; --json has all.
_SHOWN_MAX = 30


class ReplayOptions(msgspec.Struct, frozen=True):
    """What was typed."""

    file: str
    only: Sequence[str]
    reason: str | None
    since: str | None
    limit: int | None
    replays_max: int
    execute: bool
    bootstrap: str | None
    as_json: bool


def replay_letters(options: ReplayOptions) -> int:
    """0 once everything has gone that was to go."""
    try:
        since_ms = None if options.since is None else parse_time(options.since)
        file = load(options.file, options.only, options.bootstrap)
    except (QuestionError, PipelineFileError) as error:
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)
    problems = [problem for each in file.pipelines for problem in wrong_arguments(each)]
    for problem in problems:
        complain(COMMAND, problem, EXIT_WRONG_QUESTION)
    if problems:
        return EXIT_WRONG_QUESTION
    pipelines = [each for each in file.pipelines if each.has_dead_letters]
    if not pipelines:
        names = ", ".join(each.name for each in file.pipelines)
        return complain(COMMAND, f"no source of {names} says dead_letters=", EXIT_WRONG_QUESTION)
    if len(pipelines) > 1:
        names = ", ".join(each.name for each in pipelines)
        return complain(COMMAND, f"{names} have dead letters: choose one with --only", EXIT_WRONG_QUESTION)
    choice = ReplayChoice(options.reason, since_ms, options.limit, options.replays_max)
    sent: list[int] = []
    try:
        report = replay_dead_letters(pipelines[0], choice, executes=options.execute, on_sent=sent.append)
    except OptionError as error:
        return complain(COMMAND, f"{pipelines[0].name}: {error}", EXIT_WRONG_QUESTION)
    except ConfigError as error:
        return complain(COMMAND, in_kafka_names(str(error)), EXIT_WRONG_QUESTION)
    except (ReplayError, ClientError) as error:
        advice = f"; {ADVICE}" if isinstance(error, NotReachedError) else ""
        before = f"; {_letters(sum(sent))} went before that" if sent else ""
        return complain(COMMAND, f"{in_kafka_names(str(error))}{advice}{before}", EXIT_REFUSED)
    if options.as_json:
        print_json(_row(report, each, executed=options.execute) for each in report.counts)
    else:
        _print(report, choice, executed=options.execute)
    return 0


def _print(report: ReplayReport, choice: ReplayChoice, *, executed: bool) -> None:
    if not report.counts:
        print_line(f"{report.pipeline} has no dead letters that have not gone already")
        return
    most = sorted(report.counts, key=lambda each: -each.letters)[:_SHOWN_MAX]
    if executed:
        # How many there are is not known: with --limit nobody has looked at all.
        print_table(
            ["topic", "reason", "sent"], [[each.topic, each.reason, each.chosen] for each in most if each.chosen]
        )
    else:
        rows = [[each.topic, each.reason, each.letters, each.chosen] for each in most]
        print_table(["topic", "reason", "letters", "would go"], rows)
    if len(report.counts) > _SHOWN_MAX:
        print_line(f"and {len(report.counts) - _SHOWN_MAX} more reasons, which --json has")
    if worn := sum(each.worn for each in report.counts):
        print_line(f"{_letters(worn)} went {choice.replays_max} times and came back: --replays-max lets them go again")
    if unread := sum(each.unread for each in report.counts):
        print_line(f"{_letters(unread)} came from topics that {report.pipeline} does not read any more, and stay")
    if executed:
        print_line(f"{_letters(report.chosen)} went back, which the group {report.group} remembers")
    else:
        print_line("nothing was sent: --execute does it")


def _letters(count: int) -> str:
    return f"{count:,} letter" if count == 1 else f"{count:,} letters"


def _row(report: ReplayReport, count: ReasonCount, *, executed: bool) -> dict[str, str | int | bool]:
    return {
        "pipeline": report.pipeline,
        "topic": count.topic,
        "reason": count.reason,
        "letters": count.letters,
        "chosen": count.chosen,
        "went_too_often": count.worn,
        "topic_not_read": count.unread,
        "executed": executed,
    }
