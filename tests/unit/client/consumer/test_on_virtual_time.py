"""The whole consumer on virtual time against scripted brokers: leaders that move, logs that shrink, coordinators that forget."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.readable_cluster import ReadableCluster
from tests.support.scripted_cluster import Fault, ScriptedCluster
from tidelog.client.consumer.async_consumer import AsyncConsumer
from tidelog.client.consumer.errors import LogTruncatedError
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.errors import CommitFailedError, FencedError
from tidelog.client.options import parse_options
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
)
from tidelog.wire.schema import Request, Response

P = ("t", 0)


def consumer_in(world: ReadableCluster, **options: Any) -> AsyncConsumer:
    given = {"bootstrap_servers": world.bootstrap_servers, "auto_offset_reset": "earliest", **options}
    return AsyncConsumer._on(world.seams, parse_options(ConsumerOptions, given))


async def read(consumer: AsyncConsumer, count: int, timeout_ms: int = 120_000) -> list[int]:
    values: list[int] = []
    deadline_s = consumer._loop.time() + timeout_ms / 1000
    while len(values) < count:
        assert consumer._loop.time() < deadline_s, f"only {len(values)} of {count} records came"
        values += [int(row.value) for row in await consumer.poll(timeout_ms=1000)]
    return values


def play(world: ReadableCluster, main: Callable[[ReadableCluster], Coroutine[Any, Any, None]]) -> None:
    async def played(_world: ScriptedCluster) -> None:
        await main(world)

    world.run(played)


def test_a_leader_that_moves_costs_no_record_and_doubles_none() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 25)
        async with consumer_in(world) as consumer:
            consumer.assign([P])
            assert await read(consumer, 25) == list(range(25))
            world.move("t", 0, 2)
            world.add("t", 0, 25)
            assert await read(consumer, 25) == list(range(25, 50))
            world.brokers[2].kill()
            world.move("t", 0, 1)
            world.add("t", 0, 5)
            assert await read(consumer, 5) == list(range(50, 55))

    play(ReadableCluster(brokers=2, topics={"t": 1}), main)


def test_a_truncated_log_is_noticed_and_read_from_where_it_parted() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 20)
        async with consumer_in(world) as consumer:
            consumer.assign([P])
            assert await read(consumer, 20) == list(range(20))
            world.truncate("t", 0, 12)
            world.move("t", 0, 2)
            world.add("t", 0, 10)
            assert await read(consumer, 10) == list(range(12, 22))

    play(ReadableCluster(brokers=2, topics={"t": 1}), main)


def test_a_truncated_log_is_an_error_where_no_rule_says_what_to_do() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 20)
        async with consumer_in(world, auto_offset_reset="none") as consumer:
            consumer.assign([P])
            consumer.seek(P, 0)
            await read(consumer, 20)
            world.truncate("t", 0, 12)
            world.move("t", 0, 2)
            with pytest.raises(LogTruncatedError) as raised:
                await read(consumer, 1)
            assert raised.value.offset == 12
            consumer.seek(P, 12)
            world.add("t", 0, 1)
            assert await read(consumer, 1) == [12]

    play(ReadableCluster(brokers=2, topics={"t": 1}), main)


def test_a_broker_that_forgets_the_session_or_says_nothing_is_asked_again() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 10)
        async with consumer_in(world, request_timeout_ms=2000) as consumer:
            consumer.assign([P])
            await read(consumer, 10)
            world.sessions.clear()
            world.add("t", 0, 10)
            assert await read(consumer, 10) == list(range(10, 20))

            silent = [True]

            def script(request: Request) -> Fault | None:
                if isinstance(request, FetchRequest) and silent:
                    silent.clear()
                    return Fault.IGNORE
                return None

            world.brokers[1].script = script
            world.add("t", 0, 10)
            assert await read(consumer, 10) == list(range(20, 30))

    play(ReadableCluster(topics={"t": 1}), main)


def test_a_nearer_replica_is_read_from_until_it_fails() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 10)
        fetched_from: list[int] = []

        def leader(request: Request) -> Response | None:
            if not isinstance(request, FetchRequest):
                return None
            answer = world.fetch(world.brokers[1], request)
            for topic in answer.responses:
                for data in topic.partitions:
                    data.preferred_read_replica, data.records = 2, b""
            return answer

        def follower(request: Request) -> Response | None:
            if not isinstance(request, FetchRequest):
                return None
            fetched_from.append(2)
            # It has the leader's log.
            return world.fetch(world.brokers[1], request)

        world.brokers[1].script, world.brokers[2].script = leader, follower
        async with consumer_in(world, client_rack="here") as consumer:
            consumer.assign([P])
            assert await read(consumer, 10) == list(range(10))
            assert fetched_from
            assert all(each.rack_id == "here" for each in world.brokers[1].requests if isinstance(each, FetchRequest))
            world.brokers[2].kill()
            world.brokers[1].script = lambda _request: None
            world.add("t", 0, 5)
            assert await read(consumer, 5) == list(range(10, 15))

    play(ReadableCluster(brokers=2, topics={"t": 1}), main)


def test_a_member_that_the_coordinator_forgets_joins_again_and_goes_on_from_its_commit() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 10)
        told: list[str] = []
        async with consumer_in(world, group_id="g", enable_auto_commit=False) as consumer:
            consumer.subscribe(
                ["t"],
                on_assigned=lambda _: told.append("assigned"),
                on_revoked=lambda _: told.append("revoked"),
                on_lost=lambda _: told.append("lost"),
            )
            await read(consumer, 10)
            await consumer.commit({P: 4})
            world.member_ids = []
            with pytest.raises(CommitFailedError):
                await consumer.commit()
            assert await read(consumer, 6) == list(range(4, 10))
            assert told == ["assigned", "lost", "assigned"]
        assert told[-1] == "revoked"
        assert world.brokers[1].asked(LeaveGroupRequest) == 1

    play(ReadableCluster(topics={"t": 1}), main)


def test_a_static_member_does_not_say_that_it_leaves() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 1)
        async with consumer_in(world, group_id="g", group_instance_id="one") as consumer:
            consumer.subscribe("t")
            await read(consumer, 1)
        assert world.brokers[1].asked(LeaveGroupRequest) == 0
        assert world.committed == {P: 1}

    play(ReadableCluster(topics={"t": 1}), main)


def test_a_coordinator_that_loads_or_moves_is_not_asked_in_a_loop() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 1)
        errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3 + [ErrorCode.NOT_COORDINATOR] * 3
        asked_at_s: list[float] = []

        def script(request: Request) -> Response | None:
            if isinstance(request, JoinGroupRequest) and errors:
                asked_at_s.append(world.loop.time())
                return JoinGroupResponse(
                    throttle_time_ms=0, error_code=errors.pop(0), protocol_name="", leader="", member_id="", members=[]
                )
            return None

        world.brokers[1].script = script
        async with consumer_in(world, group_id="g") as consumer:
            consumer.subscribe("t")
            await read(consumer, 1)
        assert asked_at_s[-1] - asked_at_s[0] > 1.0, "every further attempt waits longer"
        assert world.brokers[1].asked(FindCoordinatorRequest) <= 6

    play(ReadableCluster(topics={"t": 1}), main)


def test_an_idle_consumer_asks_for_little() -> None:
    async def main(world: ReadableCluster) -> None:
        async with consumer_in(world, group_id="g", heartbeat_interval_ms=3000) as consumer:
            consumer.subscribe("t")
            await consumer.poll(timeout_ms=100)
            began, heartbeats = world.loop.time(), world.brokers[1].asked(HeartbeatRequest)

            def wait(request: Request) -> Fault | None:
                return Fault.IGNORE if isinstance(request, FetchRequest) else None

            world.brokers[1].script = wait
            await consumer.poll(timeout_ms=25_000)
            elapsed = world.loop.time() - began
        assert 25 <= elapsed < 26
        assert 7 <= world.brokers[1].asked(HeartbeatRequest) - heartbeats <= 9
        assert world.brokers[1].asked(JoinGroupRequest) == 2, "the first only brought a member id"

    play(ReadableCluster(topics={"t": 1}), main)


def test_a_fenced_static_member_is_told_and_stays_out() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 1)

        def script(request: Request) -> Response | None:
            if isinstance(request, HeartbeatRequest):
                return HeartbeatResponse(throttle_time_ms=0, error_code=ErrorCode.FENCED_INSTANCE_ID)
            return None

        lost: list[object] = []
        async with consumer_in(world, group_id="g", group_instance_id="one") as consumer:
            consumer.subscribe("t", on_lost=lost.extend)
            await read(consumer, 1)
            world.brokers[1].script = script
            for _ in range(2):
                with pytest.raises(FencedError, match="one"):
                    await read(consumer, 1)
            assert lost == [P]
            assert consumer.assignment() == frozenset()

    play(ReadableCluster(topics={"t": 1}), main)


def test_fetches_stop_while_enough_is_unread() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 2000)
        async with consumer_in(world, max_partition_fetch_bytes=300, max_poll_records=1) as consumer:
            consumer.assign([P])
            await read(consumer, 1)
            await consumer.position(P)
            fetches = world.brokers[1].asked(FetchRequest)
            for _ in range(5):
                await consumer.poll(timeout_ms=100)
            assert world.brokers[1].asked(FetchRequest) - fetches <= 2
            assert await read(consumer, 1994) == list(range(6, 2000))

    play(ReadableCluster(topics={"t": 1}), main)


def test_an_answer_of_nothing_but_errors_is_no_answer() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 3)
        refused = [0]

        def script(request: Request) -> Response | None:
            if isinstance(request, FetchRequest) and refused[0] < 3:
                refused[0] += 1
                answer = world.fetch(world.brokers[1], request)
                for topic in answer.responses:
                    for data in topic.partitions:
                        data.error_code, data.records = ErrorCode.UNKNOWN_LEADER_EPOCH, b""
                assert isinstance(answer, FetchResponse)
                return answer
            return None

        world.brokers[1].script = script
        async with consumer_in(world) as consumer:
            consumer.assign([P])
            assert await read(consumer, 3) == [0, 1, 2]
        assert refused[0] == 3

    play(ReadableCluster(topics={"t": 1}), main)


def test_a_topic_that_does_not_exist_holds_up_no_other() -> None:
    async def main(world: ReadableCluster) -> None:
        world.add("t", 0, 3)
        async with consumer_in(world, group_id="g") as consumer:
            consumer.assign([P, ("later", 0)])
            assert await read(consumer, 3, timeout_ms=5000) == [0, 1, 2]
            world.create("later")
            world.add("later", 0, 2)
            assert await read(consumer, 2, timeout_ms=5000) == [0, 1]

    play(ReadableCluster(topics={"t": 1}), main)
