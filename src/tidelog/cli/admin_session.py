"""What the administrative commands share: a connection to a cluster, errors in one sentence, tables and JSON lines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from tidelog.cli.client_lines import ClientLines
from tidelog.cli.cluster_login import login_settings
from tidelog.cli.rendering import Json, json_line, printable
from tidelog.client.admin import AsyncAdmin
from tidelog.client.admin.options import AdminOptions
from tidelog.client.errors import ClientError, ConfigError, NotReachedError, UnknownTopicError
from tidelog.client.kafka_properties import in_kafka_names

EXIT_REFUSED = 1
EXIT_WRONG_QUESTION = 2

# A person waits for the answer: a node that is silent for so long is not there.
CONNECT_TIMEOUT_MS = 5_000
CALL_TIMEOUT_MS = 30_000

LOGIN_ADVICE = "such keys go into the file of --command-config"
ADVICE = "start a cluster with `tidelog up`, or name one with --bootstrap"


class QuestionError(Exception):
    """The command line asks for what makes no sense, in one sentence."""


class RefusalError(Exception):
    """The answer is no, in one sentence."""


def not_reached(error: NotReachedError) -> RefusalError:
    """No node answered: with what a person can do about it, unless the sentence says that already."""
    sentence = in_kafka_names(str(error))
    return RefusalError(f"{sentence}: {LOGIN_ADVICE}" if sentence != str(error) else f"{sentence}; {ADVICE}")


def admin_settings(bootstrap: str, login: Mapping[str, Any] | None = None) -> Any:
    """The options of a command's admin, with its own login or another. ConfigError where those of the login cannot be."""
    return {
        "client_id": "tidelog-admin",
        "socket_connection_setup_timeout_ms": CONNECT_TIMEOUT_MS,
        "default_api_timeout_ms": CALL_TIMEOUT_MS,
        **(login_settings(AdminOptions) if login is None else login),
        "bootstrap_servers": bootstrap,
    }


def administer(
    command: str,
    bootstrap: str,
    work: Callable[[AsyncAdmin], Awaitable[None]],
    login: Mapping[str, Any] | None = None,
) -> int:
    """Do some work with a cluster. The exit code. `login` are options of a client, instead of the command's own."""

    async def session() -> None:
        async with AsyncAdmin(**admin_settings(bootstrap, login)) as admin:
            try:
                await admin.connect()
            except NotReachedError as error:
                raise not_reached(error) from error
            lines.begun()
            try:
                await work(admin)
            except UnknownTopicError as error:
                raise await _with_nearest_topic(admin, error) from error

    try:
        with ClientLines(command) as lines:
            asyncio.run(session())
    except QuestionError as error:
        return complain(command, str(error), EXIT_WRONG_QUESTION)
    except ConfigError as error:
        return complain(command, in_kafka_names(str(error)), EXIT_WRONG_QUESTION)
    except (RefusalError, ClientError) as error:
        return complain(command, in_kafka_names(str(error)), EXIT_REFUSED)
    return 0


async def _with_nearest_topic(admin: AsyncAdmin, error: UnknownTopicError) -> ClientError | RefusalError:
    # Only for those who erred; and it needs this module.
    from tidelog.cli.topic_names import with_nearest_topic  # noqa: PLC0415

    try:
        return with_nearest_topic(error, [each.name for each in await admin.list_topics()])
    except ClientError:
        return error


def complain_later(errors: Sequence[ClientError]) -> None:
    """Once what went well is printed: RefusalError with what did not, each reason once."""
    if errors:
        raise RefusalError("; ".join(dict.fromkeys(map(str, errors))))


def parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    """`key=value` arguments."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise QuestionError(f"{text!r} is not a setting: expected key=value, as in retention.ms=86400000")
        pairs[name.strip()] = value.strip()
    return pairs


def print_line(text: str) -> None:
    sys.stdout.write(printable(text) + "\n")


def print_json(rows: Iterable[Mapping[str, Json]]) -> None:
    """One object a line."""
    for row in rows:
        sys.stdout.write(json_line(row) + "\n")


def print_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns under their titles, numbers to the right."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(titles, *cells, strict=True)]
    to_the_right = [bool(rows) and all(isinstance(row[index], int) for row in rows) for index in range(len(titles))]
    for line in ([title.upper() for title in titles], *cells):
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, to_the_right, strict=True)
        ]
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def comma_separated(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers)) or "-"


def remark(command: str, sentence: str) -> None:
    """Print a warning on stderr; the command continues."""
    sys.stderr.write(f"tidelog {command}: {printable(sentence)}\n")
    sys.stderr.flush()


def complain(command: str, sentence: str, code: int) -> int:
    """Say what is wrong on stderr, and return the code to exit with."""
    sys.stderr.write(f"tidelog {command}: {printable(sentence)}\n")
    return code
