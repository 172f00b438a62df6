"""Controllers that talk over a network: they elect, replicate, outlive deaths of each other, and lose nothing they answered."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest

from tests.support.controller_quorum import ControllerHost, ControllerQuorum, topic_names
from tidelog.controller.controller import ControllerContext
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.wire.messages.broker_lifecycle import BrokerHeartbeatRequest, BrokerRegistrationResponse
from tidelog.wire.messages.topics import CreateTopicsResponse
from tidelog.wire.schema import Response

SEEDS = range(12)
_SOMEBODY = ControllerContext()
MISFORTUNES = 12


async def _led(quorum: ControllerQuorum) -> ControllerHost:
    """All controllers up, one of them active, one broker registered with it."""
    await quorum.start_all()
    active = await quorum.elected()
    await _with_broker(quorum, active)
    return active


async def _with_broker(quorum: ControllerQuorum, active: ControllerHost) -> None:
    """A broker for topics to be placed on. Its session outlasts every history."""
    registered = active.node.controller.handle(active.node.registration(9), _SOMEBODY)
    await quorum.until(lambda: registered.is_complete, "a registration")
    assert isinstance(registered.value, BrokerRegistrationResponse)
    heartbeat = BrokerHeartbeatRequest(
        broker_id=9,
        broker_epoch=registered.value.broker_epoch,
        current_metadata_offset=registered.value.broker_epoch,
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=[],
    )
    heard = active.node.controller.handle(heartbeat, _SOMEBODY)
    await quorum.until(lambda: heard.is_complete, "a heartbeat")


def test_three_controllers_elect_one_and_all_see_what_it_decides() -> None:
    async def story(quorum: ControllerQuorum) -> None:
        active = await _led(quorum)
        assert await quorum.create_topic("orders") is ErrorCode.NONE
        await quorum.settled()
        assert all(topic_names(host) == {"orders"} for host in quorum.hosts.values())
        assert {host.quorum.leader_id for host in quorum.hosts.values()} == {active.node_id}
        assert [host.is_active for host in quorum.hosts.values()].count(True) == 1

    ControllerQuorum(1).run(story)


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_leader_is_replaced_in_less_than_half_a_second(seed: int) -> None:
    async def story(quorum: ControllerQuorum) -> None:
        active = await _led(quorum)
        assert await quorum.create_topic("before") is ErrorCode.NONE
        active.kill()
        began_s = quorum.loop.time()
        await quorum.elected(other_than=active.node_id)
        assert quorum.loop.time() - began_s < 0.5
        assert await quorum.create_topic("after") is ErrorCode.NONE
        await active.start()
        await quorum.settled()
        assert all(topic_names(host) == {"before", "after"} for host in quorum.hosts.values())

    ControllerQuorum(seed).run(story)


def test_a_leader_that_is_cut_off_resigns_and_what_it_did_not_answer_is_undone() -> None:
    async def story(quorum: ControllerQuorum) -> None:
        active = await _led(quorum)
        others = [host.name for host in quorum.hosts.values() if host is not active]
        quorum.network.partition([active.name], others)
        unanswered = quorum.ask_for_topic("lost")
        assert unanswered is not None
        await quorum.elected(other_than=active.node_id)
        assert await quorum.create_topic("kept") is ErrorCode.NONE
        await quorum.until(lambda: unanswered.is_complete, "the end of the cut-off leader's term")
        assert isinstance(unanswered.value, CreateTopicsResponse)
        assert unanswered.value.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        quorum.network.heal()
        await quorum.settled()
        assert all(topic_names(host) == {"kept"} for host in quorum.hosts.values())

    ControllerQuorum(2).run(story)


def test_a_controller_that_was_away_for_long_comes_back_by_a_snapshot() -> None:
    async def story(quorum: ControllerQuorum) -> None:
        active = await _led(quorum)
        away = next(host for host in quorum.hosts.values() if host is not active)
        away.kill()
        for number in range(5):
            assert await quorum.create_topic(f"topic-{number}") is ErrorCode.NONE
        await quorum.until(lambda: active.node.log.start_offset() > 0, "the log to begin behind the snapshot")
        await away.start()
        await quorum.settled()
        assert away.node.log.start_offset() > 0
        assert topic_names(away) == {f"topic-{number}" for number in range(5)}

    # A snapshot every few records, and nothing kept of what it covers.
    config = {"metadata.log.max.record.bytes.between.snapshots": "100", "metadata.max.retention.bytes": "1"}
    ControllerQuorum(3, config=config).run(story)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_befalls_three_controllers_what_they_answered_stays(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)

    async def story(quorum: ControllerQuorum) -> None:
        await _led(quorum)
        history = _History(quorum)
        for _ in range(MISFORTUNES):
            history.befall()
            for _ in range(4):
                await asyncio.sleep(quorum.random.uniform(0, 0.4))
                history.ask()
            await history.start_some()
        quorum.network.heal()
        await quorum.start_all()
        await quorum.elected()
        await asyncio.sleep(5)
        await quorum.settled()
        history.check()

    ControllerQuorum(100 + seed).run(story)


class _History:
    """Topics that were asked for all along, and what became of each; leaders by epoch."""

    def __init__(self, quorum: ControllerQuorum) -> None:
        self._quorum = quorum
        self._random: Random = quorum.random
        self._asked: dict[str, Pending[Response]] = {}
        self._leaders: dict[int, int] = {}

    def ask(self) -> None:
        for host in self._quorum.hosts.values():
            if host.is_running and host.is_active:
                known = self._leaders.setdefault(host.quorum.epoch, host.node_id)
                assert known == host.node_id, f"two leaders of epoch {host.quorum.epoch}"
        name = f"topic-{len(self._asked)}"
        pending = self._quorum.ask_for_topic(name)
        if pending is not None:
            self._asked[name] = pending

    def befall(self) -> None:
        hosts = self._quorum.hosts
        running = [host for host in hosts.values() if host.is_running]
        one, other = self._random.sample(list(hosts.values()), 2)
        match self._random.randrange(6):
            case 0 | 1 if len(running) > 1:
                self._random.choice(running).kill(lose_power=self._random.random() < 0.5)
            case 2 if self._quorum.active is not None:
                self._quorum.active.kill(lose_power=self._random.random() < 0.5)
            case 3:
                self._quorum.network.partition([one.name], [host.name for host in hosts.values() if host is not one])
            case 4:
                self._quorum.network.cut(one.name, other.name)
            case _:
                self._quorum.network.reset(one.name, other.name)

    async def start_some(self) -> None:
        if self._random.random() < 0.6:
            self._quorum.network.heal()
        for host in self._quorum.hosts.values():
            if not host.is_running and self._random.random() < 0.6:
                await host.start()

    def check(self) -> None:
        acknowledged = {
            name
            for name, pending in self._asked.items()
            if pending.is_complete and _error(pending.value) is ErrorCode.NONE
        }
        assert acknowledged, "nothing was ever answered: the history proves nothing"
        found = [topic_names(host) for host in self._quorum.hosts.values()]
        assert all(each == found[0] for each in found)
        assert acknowledged <= found[0], "something that was answered is gone"
        assert found[0] <= set(self._asked), "something came from nowhere"


def _error(answer: Response) -> ErrorCode:
    assert isinstance(answer, CreateTopicsResponse)
    return ErrorCode.of(answer.topics[0].error_code)
