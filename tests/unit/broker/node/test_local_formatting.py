"""The directories of nodes that share a machine: one cluster, whatever was lost or interrupted before."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from tidelog.broker.node.local_cluster import (
    LocalNode,
    controller_ports_of,
    local_properties,
    log_directory_of,
    server_properties_of,
    write_server_properties,
)
from tidelog.broker.node.local_formatting import format_nodes
from tidelog.controller.formatting import FormatError
from tidelog.model.clock import SystemClock
from tidelog.model.config import ConfigError
from tidelog.storage.meta_properties import MetaProperties, read_meta_properties
from tidelog.storage.os_files import OsFiles

CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


@pytest.fixture
def nodes(tmp_path: Path) -> list[LocalNode]:
    return [LocalNode(number, log_directory_of(str(tmp_path), number), 0, 9100 + number) for number in (1, 2, 3)]


def formatted(nodes: list[LocalNode], seed: int = 1) -> list[MetaProperties]:
    format_nodes(nodes, files=OsFiles(), clock=SystemClock(), random=Random(seed))
    identities = [read_meta_properties(OsFiles(), node.directory) for node in nodes]
    return [each for each in identities if each is not None]


def configured(nodes: list[LocalNode]) -> None:
    for node in nodes:
        write_server_properties(OsFiles(), node, local_properties(node, nodes), "Written by a test.")


def test_all_nodes_are_of_one_cluster_and_a_second_time_changes_nothing(nodes: list[LocalNode]) -> None:
    first = formatted(nodes)

    assert len({each.cluster_id for each in first}) == 1
    assert [each.node_id for each in first] == [1, 2, 3]
    assert len({each.directory_id for each in first}) == 3
    assert formatted(nodes, seed=2) == first


def test_a_first_start_that_was_interrupted_is_finished_with_the_same_voters(nodes: list[LocalNode]) -> None:
    first = formatted(nodes)
    shutil.rmtree(nodes[2].directory)

    assert formatted(nodes, seed=2) == first


def test_a_node_that_has_lost_its_directory_comes_back_without_a_vote(nodes: list[LocalNode]) -> None:
    first = formatted(nodes)
    configured(nodes)
    shutil.rmtree(nodes[2].directory)

    again = formatted(nodes, seed=2)

    assert again[:2] == first[:2]
    assert again[2].cluster_id == first[2].cluster_id
    assert again[2].directory_id != first[2].directory_id
    assert (Path(nodes[0].directory) / CHECKPOINT).exists()
    assert not (Path(nodes[2].directory) / CHECKPOINT).exists()


def test_nodes_of_several_clusters_are_refused(nodes: list[LocalNode]) -> None:
    formatted(nodes[:1], seed=1)
    formatted(nodes[1:], seed=2)

    with pytest.raises(FormatError, match="belong to several clusters"):
        formatted(nodes)


def test_any_node_knows_the_controller_ports_of_all(nodes: list[LocalNode], tmp_path: Path) -> None:
    before = controller_ports_of(OsFiles(), str(tmp_path))
    formatted(nodes)
    configured(nodes)
    shutil.rmtree(tmp_path / "node-1")

    assert before == ()
    assert controller_ports_of(OsFiles(), str(tmp_path)) == (9101, 9102, 9103)


def test_a_configuration_without_controllers_is_one_sentence(nodes: list[LocalNode], tmp_path: Path) -> None:
    formatted(nodes)
    write_server_properties(OsFiles(), nodes[0], {"node.id": "1"}, "Changed by hand.")

    with pytest.raises(ConfigError, match=f"{server_properties_of(nodes[0])} does not name the cluster's controllers"):
        controller_ports_of(OsFiles(), str(tmp_path))


def test_a_node_that_has_logs_and_no_identity_is_refused(nodes: list[LocalNode]) -> None:
    formatted(nodes)
    configured(nodes)
    (Path(nodes[1].directory) / "orders-0").mkdir()
    (Path(nodes[1].directory) / "meta.properties").unlink()

    with pytest.raises(FormatError, match=r"meta\.properties is missing"):
        formatted(nodes)
