"""The disk of one of three processes is full, under load: others lead, writes go on, and with room again it catches up.

The disk is a mount of its own, so the write that fails is one that the kernel has refused. With one log directory the node
stops, as Kafka does; with another one for the metadata it stays, without what lay on the full one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cluster_load import ConfluentLoad, Load, OurLoad, check_nothing_lost_or_doubled, wait_until
from tests.support.cluster_processes import ClusterProcesses
from tests.support.small_disk import SmallDisk, small_disk
from tidelog import Admin
from tidelog.client.admin import NewTopic, value_of

pytestmark = pytest.mark.soak

TOPIC = "orders"
FULL = 1
DISK_MEGABYTES = 32


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", DISK_MEGABYTES) as mounted:
        yield mounted


def create(admin: Admin, *replicas: list[int]) -> None:
    value_of(admin.create_topics([NewTopic(TOPIC, replicas=replicas)])[TOPIC])


def in_sync(admin: Admin) -> list[set[int]]:
    return [set(each.in_sync) for each in admin.describe_topic(TOPIC).partitions]


def leaders(admin: Admin) -> list[int | None]:
    return [each.leader for each in admin.describe_topic(TOPIC).partitions]


def loads_of(cluster: ClusterProcesses) -> list[Load]:
    return [ConfluentLoad(cluster.bootstrap, TOPIC, 0), OurLoad(cluster.bootstrap, TOPIC, 1)]


def print_gaps(loads: list[Load], since_s: float) -> None:
    gaps = ", ".join(f"{load.name} {load.longest_gap_s(since_s) * 1000:.0f} ms" for load in loads)
    print(f"\nlongest gap in acknowledged writes around a disk that is full: {gaps}")


def test_a_node_whose_only_disk_is_full_stops_and_comes_back_with_room(tmp_path: Path, disk: SmallDisk) -> None:
    cluster = ClusterProcesses(tmp_path, data={FULL: disk.path})
    with cluster.running(), Admin(bootstrap_servers=cluster.bootstrap) as admin, ExitStack() as writing:
        # It leads one, and follows in the other.
        create(admin, [FULL, 2, 3], [2, 3, FULL])
        loads = [writing.enter_context(load) for load in loads_of(cluster)]
        for load in loads:
            load.until_written()
        began_s = time.monotonic()
        disk.fill()
        code = cluster.nodes[FULL].wait_until_stopped()
        wait_until(lambda: in_sync(admin) == [{2, 3}] * 2, "the others have left it out")
        for load in loads:
            load.until_written()
        led = leaders(admin)

        # With no room at all it does not come back, and says why.
        cluster.nodes[FULL].start()
        again = cluster.nodes[FULL].wait_until_stopped()
        said = cluster.nodes[FULL].log
        disk.make_room()
        cluster.start(FULL)
        wait_until(lambda: in_sync(admin) == [{1, 2, 3}] * 2, "it has caught up")
        for load in loads:
            load.until_written()
        writing.close()
        check_nothing_lost_or_doubled(cluster.bootstrap, loads)
        print_gaps(loads, began_s)

    assert (code, again) == (1, 1)
    assert led[0] != FULL
    assert led[1] == 2
    assert said.splitlines()[-1].startswith("tidelog broker: ")
    assert "No space left on device" in said
    assert "Traceback" not in said


def test_a_node_with_a_second_disk_that_is_full_goes_on_without_it(tmp_path: Path, disk: SmallDisk) -> None:
    cluster = ClusterProcesses(tmp_path)
    node = cluster.nodes[FULL]
    node.properties |= {"log.dirs": f"{node.data},{disk.path}", "metadata.log.dir": str(node.data)}
    with cluster.running(), Admin(bootstrap_servers=cluster.bootstrap) as admin, ExitStack() as writing:
        create(admin, [FULL, 2, 3], [FULL, 2, 3])
        wanted = {(TOPIC, 0, FULL): str(disk.path), (TOPIC, 1, FULL): str(node.data)}
        # Its own broker may hear of the topic a little later.
        wait_until(lambda: not any(admin.alter_replica_log_dirs(wanted).values()), "both may go where they are wanted")
        wait_until(lambda: [each.name for each in disk.path.glob(f"{TOPIC}-?")] == [f"{TOPIC}-0"], "they have moved")
        loads = [writing.enter_context(load) for load in loads_of(cluster)]
        for load in loads:
            load.until_written()
        began_s = time.monotonic()
        disk.fill()
        wait_until(lambda: in_sync(admin) == [{2, 3}, {1, 2, 3}], "the others have left it out where it lay there")
        for load in loads:
            load.until_written()
        led = leaders(admin)
        directories = value_of(admin.describe_log_dirs([FULL])[FULL])

        disk.make_room()
        code = node.stop()
        cluster.start(FULL)
        wait_until(lambda: in_sync(admin) == [{1, 2, 3}] * 2, "it has caught up")
        for load in loads:
            load.until_written()
        writing.close()
        check_nothing_lost_or_doubled(cluster.bootstrap, loads)
        print_gaps(loads, began_s)

    assert led[0] in {2, 3}
    assert led[1] == FULL
    assert directories[str(disk.path)].error is not None
    assert directories[str(node.data)].error is None
    assert code == 0
    assert "Traceback" not in node.log
