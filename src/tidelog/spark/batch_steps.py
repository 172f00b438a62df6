"""The steps by which a batch comes to count, told as they are done: to nobody, unless a test of crashes has asked.

    begin                  Spark has written down what the batch reads, and nothing else has happened
    write                  tasks have written everything, and the driver knows what
    manifest of SINK       what a table has of it is listed in a file
    take over, claim       the driver decides from now on
    check, pin             every sink would take it, and no transaction can time out any more
    decision               it counts
    end of SINK, end of topics
    finish                 all of it is there, and the account of it is written
    return                 Spark is about to write down that it is done

Others (`list`, `abort`, `discard`) clean up. A step is told once it is done, on whichever thread has done it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

BEGIN, WRITE, RETURN = "begin", "write", "return"


class BatchStep(NamedTuple):
    name: str
    query_id: str
    query: str | None = None
    """Its name; None behind the first step of a batch, which all others of the query's follow."""
    batch_id: int | None = None
    rows: int = 0
    """With `write`: how many went to all sinks."""


listener: Callable[[BatchStep], None] | None = None
"""Whoever is told. One for the process, which is one that a test has started."""


def tell(step: BatchStep) -> None:
    if listener is not None:
        listener(step)


def listen(told: Callable[[BatchStep], None] | None) -> None:
    global listener  # noqa: PLW0603 - as there is one driver in a process
    listener = told
