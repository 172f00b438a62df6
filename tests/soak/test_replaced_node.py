"""A machine is lost for good and another takes its place under another id: as a voter, as a broker, and for every replica."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cluster_load import ConfluentLoad, Load, OurLoad, check_nothing_lost_or_doubled, wait_until
from tests.support.cluster_processes import ClusterProcesses
from tests.support.command_line import json_lines, tidelog
from tests.support.quorum_watch import is_caught_up, until_quorum, voters
from tidelog import Admin
from tidelog.client.admin import NewTopic, value_of

pytestmark = pytest.mark.soak

TOPIC = "orders"
GONE, NEW = 3, 4


def test_a_broker_that_is_gone_is_forgotten_and_another_id_takes_over_its_replicas(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path, NEW, voters=[1, 2, GONE])
    at = ("--bootstrap", cluster.bootstrap)
    with (
        cluster.running(1, 2, GONE),
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        ExitStack() as writing,
    ):
        # It leads one, and follows in the others.
        wanted = ([GONE, 1, 2], [1, 2, GONE], [2, GONE, 1])
        value_of(admin.create_topics([NewTopic(TOPIC, replicas=wanted)])[TOPIC])
        loads: list[Load] = [ConfluentLoad(cluster.bootstrap, TOPIC, 0), OurLoad(cluster.bootstrap, TOPIC, 1)]
        for load in loads:
            writing.enter_context(load)
            load.until_written()

        cluster.nodes[GONE].kill()
        shutil.rmtree(cluster.nodes[GONE].data)
        for load in loads:
            load.until_written()
        wait_until(lambda: GONE not in {each.node_id for each in admin.describe_cluster().brokers}, "it is fenced")
        unregistered = tidelog("cluster", "unregister", str(GONE), *at)
        removed = tidelog("cluster", "remove-controller", str(GONE), *at)
        known = [each.node_id for each in admin.describe_cluster(include_fenced_brokers=True).brokers]

        cluster.start(NEW)
        until_quorum(admin, lambda quorum: is_caught_up(quorum, NEW), "the new node has caught up")
        added = tidelog("cluster", "add-controller", "--config", tmp_path / f"node-{NEW}.properties", *at)
        planned = tidelog("reassign", "plan", "--json", *at)
        (tmp_path / "plan.json").write_text(planned.stdout)
        applied = tidelog("reassign", "apply", tmp_path / "plan.json", "--wait", *at)
        for load in loads:
            load.until_written()
        wait_until(
            lambda: all(set(each.in_sync) == {1, 2, NEW} for each in admin.describe_topic(TOPIC).partitions),
            "all have their replicas",
        )
        quorum = voters(admin.describe_quorum())
        (status,) = json_lines(tidelog("cluster", "status", "--json", *at))
        # Only now is the new one needed: as a replica for the minimum in sync, and as a voter for the majority.
        cluster.nodes[1].kill()
        for load in loads:
            load.until_written()
        admin.create_topic("later", partitions=1, replication_factor=2)
        writing.close()
        check_nothing_lost_or_doubled(cluster.bootstrap, loads)

    for command in (unregistered, removed, added, planned, applied):
        assert command.exit_code == 0, command.output
    assert known == [1, 2]
    assert quorum == [1, 2, NEW]
    moved = [row for row in json.loads(planned.stdout)["partitions"] if row["topic"] == TOPIC]
    assert [set(row["replicas"]) for row in moved] == [{1, 2, NEW}] * 3
    assert (status["under_replicated"], status["offline"]) == (0, 0)
