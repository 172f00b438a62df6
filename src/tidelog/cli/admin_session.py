"""What the administrative commands share: a connection to a cluster, errors in one sentence, tables and JSON lines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from random import SystemRandom

from tidelog.cli.rendering import Json, json_line, printable
from tidelog.client.admin_core import AdminCore
from tidelog.client.cluster_link import ClusterLink, parse_bootstrap
from tidelog.client.errors import ClientError, NotReachedError
from tidelog.net.transport import LoopTransport

EXIT_REFUSED = 1
EXIT_WRONG_QUESTION = 2


class QuestionError(Exception):
    """The command line asks for what makes no sense, in one sentence."""


def administer(command: str, bootstrap: str, work: Callable[[AdminCore], Awaitable[None]]) -> int:
    """Do some work with a cluster. The exit code."""
    try:
        addresses = parse_bootstrap(bootstrap)
    except ClientError as error:
        return _complain(command, str(error), EXIT_WRONG_QUESTION)

    async def session() -> None:
        loop = asyncio.get_running_loop()
        async with ClusterLink(loop, LoopTransport(loop), SystemRandom(), addresses) as link:
            await work(AdminCore(link))

    try:
        asyncio.run(session())
    except QuestionError as error:
        return _complain(command, str(error), EXIT_WRONG_QUESTION)
    except NotReachedError as error:
        advice = "start a cluster with `tidelog up`, or name one with --bootstrap"
        return _complain(command, f"{error}; {advice}", EXIT_REFUSED)
    except ClientError as error:
        return _complain(command, str(error), EXIT_REFUSED)
    return 0


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


def _complain(command: str, sentence: str, code: int) -> int:
    sys.stderr.write(f"tidelog {command}: {printable(sentence)}\n")
    return code
