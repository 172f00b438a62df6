"""A whole node on virtual time, a simulated disk and a simulated network: the same composition root as the real one."""

from __future__ import annotations

import errno
import logging

import pytest

from tests.support.simulated_node import Asker, World
from tidelog.model.config import INT_MAX
from tidelog.model.errors import ErrorCode
from tidelog.net.errors import RequestFailedError
from tidelog.storage.errors import StorageError
from tidelog.storage.open_segments import segments_beside
from tidelog.wire.messages.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse

QUIET_S = 600


def test_a_node_serves_stops_and_starts_again_in_no_time_at_all() -> None:
    async def story(world: World) -> None:
        node = await world.start()
        asker = Asker(world)
        assert await asker.create("orders") == ErrorCode.NONE
        for number in range(20):
            assert await asker.produce("orders", b"%d" % number) == ErrorCode.NONE
        asker.close()
        await node.stop()
        node = await world.start()
        asker = Asker(world)
        assert await asker.fetch("orders", 0) == [b"%d" % number for number in range(20)]
        asker.close()
        await node.stop()

    World(1).run(story)


def test_a_fetch_that_waits_is_woken_by_a_record_and_not_before_its_time_without_one() -> None:
    async def story(world: World) -> None:
        node = await world.start()
        asker, writer = Asker(world), Asker(world)
        await asker.create("orders")
        began_ms = world.clock.monotonic_ms()
        assert await asker.fetch("orders", 0, max_wait_ms=20_000) == []
        assert 20_000 <= world.clock.monotonic_ms() - began_ms < 20_100
        waiting = world.loop.create_task(asker.fetch("orders", 0, max_wait_ms=20_000))
        began_ms = world.clock.monotonic_ms()
        await writer.produce("orders", b"now")
        assert await waiting == [b"now"]
        assert world.clock.monotonic_ms() - began_ms < 100
        asker.close()
        writer.close()
        await node.stop()

    World(2).run(story)


def test_time_passes_and_the_node_is_as_it_was() -> None:
    async def story(world: World) -> int:
        node = await world.start()
        asker = Asker(world)
        await asker.create("orders")
        await asker.produce("orders", b"one")
        passed = world.loop.create_future()
        world.loop.call_later(QUIET_S, passed.set_result, None)
        await passed
        assert await asker.fetch("orders", 0) == [b"one"]
        asker.close()
        offset = int(node.image.offset)
        await node.stop()
        return offset

    # Two records a second tell standbys that the leader lives; nothing else may pile up.
    assert World(3).run(story) < 2 * QUIET_S + 100


def _trace(seed: int) -> tuple[int, int, str]:
    async def story(world: World) -> tuple[int, int, str]:
        node = await world.start()
        asker = Asker(world)
        for number in range(5):
            await asker.create(f"topic-{number}", partitions=3)
        asker.close()
        await node.stop()
        return world.clock.monotonic_ms(), int(node.image.offset), node.cluster_id

    return World(seed).run(story)


def test_the_same_seed_gives_the_same_run() -> None:
    assert _trace(7) == _trace(7)
    assert _trace(7) != _trace(8)


def test_a_failed_directory_takes_only_its_partitions() -> None:
    async def story(world: World) -> None:
        node = await world.start()
        asker = Asker(world)
        await asker.create("orders", partitions=2)
        codes = [await asker.produce("orders", b"x", partition) for partition in (0, 1)]
        assert codes == [ErrorCode.NONE, ErrorCode.NONE]
        world.disk.fail("pwritev", "/second/*", errno.EIO)
        codes = [await asker.produce("orders", b"x", partition) for partition in (0, 1)]
        assert sorted(codes) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
        assert node.fault is None
        asker.close()
        await node.stop()

    World(4, "/first", "/second").run(story)


@pytest.mark.parametrize("failing", ["/first/orders-*", "/first/__cluster_metadata-0/*"])
def test_a_node_without_the_directory_of_its_metadata_stops(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        node = await world.start()
        asker = Asker(world)
        await asker.create("orders", partitions=2)
        world.disk.fail("pwritev", failing, errno.ENOSPC)
        try:
            for partition in (0, 1):
                await asker.produce("orders", b"x", partition)
            await asker.create("another")
        except RequestFailedError:
            pass
        asker.close()
        with pytest.raises(StorageError, match="No space left"):
            await node.stopped
        with pytest.raises(StorageError, match="No space left"):
            await node.stop()
        # Nothing is held: the next start can have it all.
        world.disk.heal()
        again = await world.start()
        await again.stop()

    with caplog.at_level(logging.CRITICAL):
        World(5, "/first", "/second").run(story)
    assert any("the node stops" in record.message for record in caplog.records)


def test_a_metadata_log_that_cannot_be_closed_does_not_keep_the_other_directories_from_it() -> None:
    async def story(world: World) -> None:
        node = await world.start()
        # Nothing but the end of it needs these: an index gets its room, and gives it back.
        for operation in ("allocate", "truncate"):
            world.disk.fail(operation, "/first/__cluster_metadata-0/*", errno.ENOSPC)
        with pytest.raises(StorageError):
            await node.stop()
        assert world.disk.exists("/second/.kafka_cleanshutdown")
        world.disk.heal()
        again = await world.start()
        await again.stop()

    World(6, "/first", "/second").run(story)


def test_a_running_broker_that_is_unregistered_registers_again() -> None:
    async def story(world: World) -> None:
        node = await world.start()
        asker = Asker(world)
        await asker.create("orders")
        await asker.produce("orders", b"before")
        request = UnregisterBrokerRequest(broker_id=1)
        assert (await asker.call(request, UnregisterBrokerResponse, 0)).error_code == ErrorCode.NONE
        answer = await asker.produce("orders", b"too soon")
        while answer == ErrorCode.NOT_LEADER_OR_FOLLOWER and world.loop.time() < QUIET_S:
            await _passing(world, 0.5)
            answer = await asker.produce("orders", b"after")
        assert answer == ErrorCode.NONE
        assert await asker.fetch("orders", 0) == [b"before", b"after"]
        asker.close()
        await node.stop()

    World(5).run(story)


def test_a_node_opens_as_many_segments_as_its_process_may() -> None:
    async def story(world: World) -> None:
        node = await world.start()
        (directory,) = node.log_directories
        assert directory.open_segments.open_max == segments_beside(world.disk.descriptors_max(), INT_MAX)
        await node.stop()

    World(6).run(story)


async def _passing(world: World, seconds: float) -> None:
    passed = world.loop.create_future()
    world.loop.call_later(seconds, passed.set_result, None)
    await passed
