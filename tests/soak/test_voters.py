"""The voters of real processes become three, five and three again under load, and whoever leads them is killed meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.cluster_load import ConfluentLoad, Load, OurLoad, check_nothing_lost_or_doubled, wait_until
from tests.support.cluster_processes import ClusterProcesses
from tests.support.command_line import tidelog
from tests.support.quorum_watch import is_caught_up, until_quorum, voters
from tidelog import Admin

pytestmark = pytest.mark.soak


def add_voter(cluster: ClusterProcesses, admin: Admin, number: int) -> None:
    """By the command, again where the controller that was asked has died before it could say how it ended."""
    properties = cluster.directory / f"node-{number}.properties"

    def is_added() -> bool:
        tidelog("cluster", "add-controller", "--config", properties, "--bootstrap", cluster.bootstrap)
        return number in voters(admin.describe_quorum())

    until_quorum(admin, lambda quorum: is_caught_up(quorum, number), f"node {number} has caught up")
    wait_until(is_added, f"node {number} votes")


def test_voters_become_three_then_five_then_three_while_their_leaders_die_under_load(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path, 5, voters=[1])
    with cluster.running(), Admin(bootstrap_servers=cluster.bootstrap) as admin:
        # Two of its replicas may be dead at a time.
        admin.create_topic("orders", partitions=2, replication_factor=5)
        loads: list[Load] = [ConfluentLoad(cluster.bootstrap, "orders", 0), OurLoad(cluster.bootstrap, "orders", 1)]
        with loads[0], loads[1]:
            for number in (2, 3, 4):
                add_voter(cluster, admin, number)
            first = admin.describe_quorum().leader_id
            # The fifth asks for its vote while the leader dies: it may have been written down, or not, or be forgotten.
            with ThreadPoolExecutor(1) as asking:
                asked = asking.submit(add_voter, cluster, admin, 5)
                cluster.nodes[first].kill()
                asked.result()
            five = until_quorum(admin, lambda quorum: quorum.leader_id != first, "another one leads")
            for load in loads:
                load.until_written()
            # With one dead already, five voters can do without another.
            cluster.nodes[five.leader_id].kill()
            led = until_quorum(admin, lambda quorum: quorum.leader_id not in {first, five.leader_id}, "a third leads")
            for load in loads:
                load.until_written()
            cluster.start(first, five.leader_id)
            until_quorum(
                admin,
                lambda quorum: all(each.log_end_offset >= quorum.high_watermark for each in quorum.voters),
                "all voters have everything",
            )

            # The leader goes last of those who go: it has to give up what it leads.
            for number in (first, led.leader_id):
                removed = tidelog("cluster", "remove-controller", str(number), "--bootstrap", cluster.bootstrap)
                assert removed.exit_code == 0, removed.stderr
            left = sorted({1, 2, 3, 4, 5} - {first, led.leader_id})
            three = until_quorum(admin, lambda quorum: quorum.leader_id in left, "one of the three that are left leads")
            # Neither of those that vote no more is needed, nor one of the three.
            for number in (first, led.leader_id):
                cluster.nodes[number].kill()
            cluster.start(first, led.leader_id)
            cluster.nodes[three.leader_id].kill()
            last = until_quorum(
                admin, lambda quorum: quorum.leader_id not in {-1, three.leader_id}, "the last one leads"
            )
            admin.create_topic("in-the-end", partitions=1, replication_factor=3)
            for load in loads:
                load.until_written()
            cluster.start(three.leader_id)
        check_nothing_lost_or_doubled(cluster.bootstrap, loads)

    assert voters(five) == [1, 2, 3, 4, 5]
    assert voters(three) == voters(last) == left
    assert last.leader_id in left
