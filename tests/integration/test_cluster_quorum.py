"""The metadata quorum of real processes changes: from one voter to three and back, by itself, and with a voter that moves."""

from __future__ import annotations

from pathlib import Path

from tests.support.cluster_load import ConfluentLoad, check_nothing_lost_or_doubled
from tests.support.cluster_processes import HOST, ClusterProcesses, free_ports
from tests.support.command_line import json_lines, tidelog
from tests.support.quorum_watch import is_caught_up, until_quorum, voters
from tidelog import Admin
from tidelog.storage.properties import parse_properties


def test_one_voter_becomes_three_and_one_again_under_load(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path, voters=[1])
    with cluster.running(), Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("orders", partitions=1, replication_factor=3)
        assert voters(admin.describe_quorum()) == [1]
        with ConfluentLoad(cluster.bootstrap, "orders", 0) as load:
            load.until_written()
            for number in (2, 3):
                until_quorum(admin, lambda quorum: is_caught_up(quorum, number), f"node {number} has caught up")  # noqa: B023
                properties = tmp_path / f"node-{number}.properties"
                added = tidelog("cluster", "add-controller", "--config", properties, "--bootstrap", cluster.bootstrap)
                assert added.exit_code == 0, added.stderr
            assert voters(admin.describe_quorum()) == [1, 2, 3]

            # What one voter could never do: go on without the first.
            cluster.nodes[1].kill()
            load.until_written()
            led = until_quorum(admin, lambda quorum: quorum.leader_id != 1, "another one leads")
            admin.create_topic("without-the-first", partitions=1, replication_factor=2)
            cluster.start(1)
            until_quorum(
                admin,
                lambda quorum: all(each.log_end_offset >= quorum.high_watermark for each in quorum.voters),
                "all voters have everything",
            )

            removed = tidelog("cluster", "remove-controller", "1", "--bootstrap", cluster.bootstrap)
            assert removed.exit_code == 0, removed.stderr
            last = led.leader_id
            other = ({2, 3} - {last}).pop()
            directory = next(each.directory_id for each in admin.describe_quorum().voters if each.node_id == other)
            assert directory is not None
            admin.remove_raft_voter(other, directory)
            assert voters(admin.describe_quorum()) == [last]
            # Nobody else is needed any more.
            for number in {1, 2, 3} - {last}:
                cluster.nodes[number].kill()
            (told,) = json_lines(tidelog("cluster", "describe", "--json", "--bootstrap", cluster.bootstrap))
            admin.create_topic("alone", partitions=1, replication_factor=1)
            cluster.start(*({1, 2, 3} - {last}))
            load.until_written()
        check_nothing_lost_or_doubled(cluster.bootstrap, [load])

    meta = parse_properties((cluster.nodes[last].data / "meta.properties").read_bytes())
    assert [(each["node"], each["directory_id"]) for each in told["quorum"]["voters"]] == [(last, meta["directory.id"])]


def test_controllers_join_by_themselves_and_are_found_where_they_move(tmp_path: Path) -> None:
    roles = {1: "controller", 2: "controller", 3: "controller", 4: "broker"}
    settings = {"controller.quorum.auto.join.enable": "true", "controller.quorum.fetch.timeout.ms": "1000"}
    cluster = ClusterProcesses(tmp_path, 4, roles=roles, voters=[1], settings=settings)
    with cluster.running(), Admin(bootstrap_servers=cluster.bootstrap) as admin:
        until_quorum(admin, lambda quorum: voters(quorum) == [1, 2, 3], "all controllers vote")
        admin.create_topic("orders", partitions=1)

        moved = next(number for number in (2, 3) if number != admin.describe_quorum().leader_id)
        assert cluster.nodes[moved].stop() == 0
        port = free_ports(1)[0]
        cluster.nodes[moved].properties["listeners"] = f"CONTROLLER://{HOST}:{port}"
        cluster.start(moved)

        found = until_quorum(
            admin,
            lambda quorum: [each.port for each in quorum.endpoints.get(moved, ())] == [port],
            "the quorum knows where the voter listens now",
        )
        assert [each.node_id for each in found.observers] == [4]
        # It is found there: with one of the others dead it is needed for every decision.
        cluster.nodes[5 - moved].kill()
        admin.create_topic("payments", partitions=1)
        assert {each.name for each in admin.list_topics()} == {"orders", "payments"}
