"""What a rolling restart goes by: the cluster that an `up` runs, all of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidelog.cli.admin.rolling_restart import RunningNode, running_nodes
from tidelog.cli.admin_session import RefusalError
from tidelog.cli.node.up import CLUSTER_FILE, LOCK_FILE, restart_mark
from tidelog.storage.os_files import OsFiles


def cluster(directory: Path, *, nodes: int, running: int) -> list[RunningNode]:
    """What `up` leaves in its directory."""
    quorum = ",".join(f"127.0.0.1:{9100 + number}" for number in range(nodes))
    rows = []
    for number in range(1, nodes + 1):
        data = directory / f"node-{number}" / "data"
        data.mkdir(parents=True)
        (data.parent / "server.properties").write_text(f"controller.quorum.bootstrap.servers={quorum}\n")
        rows.append({"node": number, "pid": 1000 + number, "port": 9090 + number, "dir": str(data)})
    (directory / CLUSTER_FILE).write_text(json.dumps(rows[:running]))
    return [RunningNode(row["node"], row["pid"], row["port"], row["dir"]) for row in rows[:running]]  # type: ignore[arg-type]


def test_the_nodes_of_an_up_are_found(tmp_path: Path) -> None:
    nodes = cluster(tmp_path, nodes=3, running=3)
    lock = OsFiles().lock(str(tmp_path / LOCK_FILE))

    assert running_nodes(str(tmp_path)) == nodes
    assert restart_mark(nodes[0].directory) == tmp_path / "node-1" / "restart"
    lock.release()


def test_nobody_runs_there(tmp_path: Path) -> None:
    cluster(tmp_path, nodes=1, running=1)

    with pytest.raises(RefusalError, match="no `tidelog up` runs in"):
        running_nodes(str(tmp_path))
    assert not (tmp_path / LOCK_FILE).exists()
    (tmp_path / LOCK_FILE).touch()
    with pytest.raises(RefusalError, match="no `tidelog up` runs in"):
        running_nodes(str(tmp_path))


def test_a_node_that_does_not_run_comes_first(tmp_path: Path) -> None:
    cluster(tmp_path, nodes=3, running=2)
    lock = OsFiles().lock(str(tmp_path / LOCK_FILE))

    with pytest.raises(RefusalError, match="1 of 3 nodes do not run: start them first"):
        running_nodes(str(tmp_path))
    lock.release()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "is starting or stopping"),
        ("{", "cannot be read"),
        ("[7]", "cannot be read"),
        ('[{"node": 1}]', "cannot be read"),
    ],
)
def test_a_list_of_nodes_that_is_none(tmp_path: Path, content: str | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / CLUSTER_FILE).write_text(content)
    lock = OsFiles().lock(str(tmp_path / LOCK_FILE))

    with pytest.raises(RefusalError, match=sentence):
        running_nodes(str(tmp_path))
    lock.release()
