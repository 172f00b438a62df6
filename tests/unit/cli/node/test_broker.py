"""`tidelog broker` before there is a node, and when it stops."""

from __future__ import annotations

import asyncio
import gc
import resource

import pytest

from tests.support.command_line import tidelog
from tidelog.cli.node import broker
from tidelog.storage.errors import StorageError


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "log.retenton.ms=1"], "Unknown configuration log.retenton.ms; did you mean log.retention.ms?"),
        (["--set", "node.id=first"], "Invalid value first for configuration node.id: Not a number of type INT"),
        (
            ["--set", "remote.log.storage.system.enable=true"],
            "remote.log.storage.system.enable cannot be set: tiered storage is not supported; remove it",
        ),
        (["--set", "listeners=PLAINTEXT://:nine"], "Invalid value PLAINTEXT://:nine for configuration listeners: "),
        (
            ["--config", "/nowhere/server.properties"],
            "Cannot read /nowhere/server.properties: No such file or directory",
        ),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], sentence: str) -> None:
    broker = tidelog("broker", *arguments)

    assert broker.exit_code == 2
    assert broker.stderr.startswith(f"tidelog broker: {sentence}")
    assert broker.stderr.count("\n") == 1


class FakeNode:
    """Stops when it is let, or with a fault; says what was done to it."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.may_stop = asyncio.Event()
        self.done: list[str] = []
        self._fault = fault

    async def stop(self) -> None:
        try:
            await self.may_stop.wait()
        except asyncio.CancelledError:
            self.done.append("interrupted")
            raise
        if self._fault is not None:
            raise self._fault
        self.done.append("stopped")

    def abandon(self) -> None:
        self.done.append("abandoned")


def stop(node: FakeNode, *signals: str) -> int:
    """Stop a node that was told so by the first of the signals."""

    async def stopped() -> int:
        told = broker._Told()
        for _ in signals:
            told._signalled()
        if len(signals) == 1:
            node.may_stop.set()
        return await broker._stop(node, told)

    return asyncio.run(stopped())


def test_one_signal_waits_for_a_clean_stop() -> None:
    node = FakeNode()

    assert stop(node, "SIGTERM") == 0
    assert node.done == ["stopped"]


def test_a_second_signal_stops_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    node = FakeNode()

    assert stop(node, "SIGINT", "SIGINT") == 1
    assert node.done == ["interrupted", "abandoned"]
    assert "the next start recovers" in capsys.readouterr().err


def test_a_stop_that_fails_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert stop(FakeNode(StorageError("/data", "sync", 5)), "SIGTERM") == 1
    assert capsys.readouterr().err.startswith("tidelog broker: the stop was not clean: cannot sync /data: ")


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ((1024, 4096), (4096, 4096)),
        ((1024, resource.RLIM_INFINITY), (1 << 20, resource.RLIM_INFINITY)),
        ((4096, 4096), None),
    ],
)
def test_a_node_may_open_as_many_files_as_the_system_lets_it(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], wanted: tuple[int, int] | None
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _which, limit: asked.append(limit))

    broker.raise_open_files_limit()

    assert asked == ([] if wanted is None else [wanted])


def test_a_failed_start_leaves_the_collector_on() -> None:
    assert tidelog("broker", "--set", "node.id=first").exit_code == 2

    assert gc.isenabled()


def test_the_collector_looks_for_garbage_again_but_not_in_what_the_start_has_made() -> None:
    gc.disable()
    try:
        broker.spare_the_collector()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()


def test_a_signal_ends_a_start_that_takes_long() -> None:
    async def scenario() -> tuple[object, bool]:
        told, was_cancelled = broker._Told(), asyncio.Event()

        async def start() -> str:
            told.stop.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                was_cancelled.set()
                raise
            return "never"

        return await broker._start(start(), told), was_cancelled.is_set()

    assert asyncio.run(asyncio.wait_for(scenario(), 10)) == (None, True)


def test_a_start_that_is_done_counts_whatever_came_meanwhile() -> None:
    async def scenario() -> object:
        told = broker._Told()

        async def start() -> str:
            told.stop.set()
            return "a node"

        return await broker._start(start(), told)

    assert asyncio.run(scenario()) == "a node"
