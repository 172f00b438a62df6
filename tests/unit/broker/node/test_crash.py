"""What the event loop's exception handler takes for a bug, and how it says where that is."""

from __future__ import annotations

import asyncio

import pytest

from tidelog.broker.node.crash import CrashHandler, place_of
from tidelog.model.bugs import BugError
from tidelog.simulation.loop import VirtualTimeLoop


class Node:
    def __init__(self) -> None:
        self.crashes: list[tuple[str, BaseException]] = []

    def crash(self, where: str, error: BaseException) -> None:
        self.crashes.append((where, error))


def fail() -> None:
    raise LookupError("a bug")


def run(loop: VirtualTimeLoop) -> None:
    loop.run_until_complete(asyncio.sleep(0.01))


def test_what_escapes_from_a_callback_stops_the_nodes_of_the_loop() -> None:
    loop, nodes = VirtualTimeLoop(), [Node(), Node()]
    for node in nodes:
        CrashHandler.of(loop).add(node)
    loop.call_soon(fail)
    run(loop)

    for node in nodes:
        [(where, error)] = node.crashes
        assert isinstance(error, LookupError)
        assert where.startswith("test_crash.py:")
        assert where.endswith(", fail")


def test_an_error_of_the_operating_system_stops_nobody() -> None:
    loop, node = VirtualTimeLoop(), Node()
    others: list[object] = []
    loop.set_exception_handler(lambda _, context: others.append(context["exception"]))
    CrashHandler.of(loop).add(node)
    exhausted = OSError(24, "Too many open files")
    loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": exhausted})

    assert (node.crashes, others) == ([], [exhausted])


def test_a_node_that_has_stopped_hears_nothing_more() -> None:
    loop, node = VirtualTimeLoop(), Node()
    others: list[object] = []
    loop.set_exception_handler(lambda _, context: others.append(context["exception"]))
    handler = CrashHandler.of(loop)
    handler.add(node)
    handler.remove(node)
    loop.call_soon(fail)
    run(loop)

    assert node.crashes == []
    assert [type(each) for each in others] == [LookupError]


def broken_off() -> None:
    try:
        fail()
    except LookupError as error:
        raise BugError("half done") from error


def test_the_place_is_where_it_began() -> None:
    with pytest.raises(BugError) as raised:
        broken_off()

    assert place_of(raised.value).endswith(", fail")
    assert place_of(LookupError("never raised")) == "nobody knows where"
