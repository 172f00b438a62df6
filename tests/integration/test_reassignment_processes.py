"""A fourth process joins three, takes the place of one of them under load, and the active controller is killed meanwhile."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

from tests.support.cluster_load import ConfluentLoad, OurLoad, check_nothing_lost_or_doubled, wait_until
from tests.support.cluster_processes import ClusterProcesses
from tests.support.command_line import json_lines, tidelog
from tidelog import Admin
from tidelog.client.admin import NewTopic, value_of

TOPIC = "orders"
GONE = 3


def test_a_new_node_takes_the_place_of_another_under_load(tmp_path: Path) -> None:
    processes = ClusterProcesses(tmp_path, 4, roles={4: "broker"})
    with processes.running(), Admin(bootstrap_servers=processes.bootstrap) as admin, ExitStack() as writing:
        created = admin.create_topics([NewTopic(TOPIC, replicas=([1, 2, 3], [3, 1, 2]))])
        value_of(created[TOPIC])
        loads = [
            writing.enter_context(OurLoad(processes.bootstrap, TOPIC, 0)),
            writing.enter_context(ConfluentLoad(processes.bootstrap, TOPIC, 1)),
        ]
        for load in loads:
            load.until_written()

        at = ("--bootstrap", processes.bootstrap)
        planned = tidelog("reassign", "plan", "--topic", TOPIC, "--without", str(GONE), "--json", *at)
        (tmp_path / "plan.json").write_text(planned.stdout)
        applied = tidelog("reassign", "apply", tmp_path / "plan.json", "--throttle", "20000", *at)
        active = admin.describe_quorum().leader_id
        processes.nodes[active].kill()
        for load in loads:
            load.until_written()
        processes.start(active)
        wait_until(lambda: not admin.list_partition_reassignments(), "the reassignment is done")
        for load in loads:
            load.until_written()
        cleared = tidelog("reassign", "status", tmp_path / "plan.json", "--clear-throttles", *at)
        wait_until(
            lambda: all(len(each.in_sync) == 3 for each in admin.describe_topic(TOPIC).partitions), "all are in sync"
        )
        replicas = [set(each.replicas) for each in admin.describe_topic(TOPIC).partitions]
        wait_until(lambda: not list(processes.nodes[GONE].data.glob(f"{TOPIC}-?")), "its files are gone")
        writing.close()
        check_nothing_lost_or_doubled(processes.bootstrap, loads)

    assert len(json_lines(planned)[0]["partitions"]) == 2
    assert {tuple(row["replicas"]) for row in json.loads(planned.stdout)["partitions"]} <= {(1, 2, 4), (2, 1, 4)}
    assert applied.exit_code == 0, applied.output
    assert cleared.exit_code == 0, cleared.output
    assert replicas == [{1, 2, 4}] * 2
