"""The voters of a static quorum, and what a node says about quorums that it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.simulated_node import World
from tidelog.broker.config.listeners import listener_specs
from tidelog.broker.config.node_config import check_config, log_directories
from tidelog.broker.config.quorum_voters import bootstrap_nodes, static_voters
from tidelog.broker.node.node import NodeError
from tidelog.controller.formatting import FormatError
from tidelog.model.broker_config import BROKER_KEYS
from tidelog.model.config import ConfigError, ConfigValues
from tidelog.model.ids import NodeId
from tidelog.raft.voter_set import Endpoint, Node, ReplicaKey, Voter


def world(*voters: str, after: World | None = None) -> World:
    """A machine whose configuration names these voters; with `after`, on the disk of another one."""
    made = World(1, disk=after.disk if after is not None else None)
    made.config = ConfigValues(BROKER_KEYS, {**made.config.given, "controller.quorum.voters": voters})
    return made


def started_and_stopped(made: World) -> tuple[int, tuple[NodeId, ...]]:
    """What a node said of its quorum while it ran: the version and the voters."""

    async def story(made: World) -> tuple[int, tuple[NodeId, ...]]:
        node = await made.start()
        seen = node.quorum.kraft_version, node.quorum.voters.ids
        await node.stop()
        return seen

    return made.run(story)


def test_voters_are_ids_and_addresses() -> None:
    voters = static_voters(["2@[::1]:9094", "1@node-1.example:9093"], "CONTROLLER")
    assert voters.voters == (
        Voter(ReplicaKey(NodeId(1)), (Endpoint("CONTROLLER", "node-1.example", 9093),)),
        Voter(ReplicaKey(NodeId(2)), (Endpoint("CONTROLLER", "::1", 9094),)),
    )


@pytest.mark.parametrize("value", ["1", "1@host", "host:9093", "one@host:9093", "1@::1:9093", "1@host:port", "@host:1"])
def test_what_names_no_voter_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters: expected id@host:port"):
        static_voters([value], "CONTROLLER")


def test_a_static_quorum_stays_in_the_configuration() -> None:
    first = world("1@node:9093")
    assert started_and_stopped(first) == (0, (1,))
    assert not any(name.endswith(".checkpoint") for name in first.disk.list_directory("/logs/__cluster_metadata-0"))

    again = world("1@node:9093", after=first)

    assert started_and_stopped(again) == (0, (1,))


def test_a_quorum_that_the_log_names_goes_before_the_configuration() -> None:
    first = world()
    assert started_and_stopped(first) == (1, (1,))
    assert started_and_stopped(world("1@elsewhere:1", after=first)) == (1, (1,))


def test_a_static_quorum_without_its_voters_is_refused_rather_than_waited_for() -> None:
    first = world("1@node:9093")
    started_and_stopped(first)
    with pytest.raises(NodeError, match=r"static quorum: set controller\.quorum\.voters=1@host:port"):
        started_and_stopped(world(after=first))


def test_a_controller_that_is_no_voter_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not name this node: expected 1@host:port"):
        started_and_stopped(world("2@node:9093"))


def test_a_directory_of_a_cluster_of_several_is_not_formatted_by_the_way() -> None:
    with pytest.raises(FormatError, match="format it with that cluster's id"):
        started_and_stopped(world("1@node:9093", "2@other:9093"))


def test_servers_to_ask_are_addresses_with_numbers_of_their_own() -> None:
    assert bootstrap_nodes(["one:9093", "[::1]:9094"]) == (
        Node(NodeId(-2), "one", 9093),
        Node(NodeId(-3), "::1", 9094),
    )
    with pytest.raises(ConfigError, match=r"controller\.quorum\.bootstrap\.servers: expected host:port"):
        bootstrap_nodes(["one"])
    with pytest.raises(ConfigError, match="expected host:port"):
        bootstrap_nodes(["1@one:9093"])


def _role(role: str, **more: str) -> ConfigValues:
    texts = {
        "node.id": "1",
        "process.roles": role,
        "listeners": "PLAINTEXT://node:9092" if role == "broker" else "CONTROLLER://node:9093",
        "controller.listener.names": "CONTROLLER",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    return BROKER_KEYS.parse(texts)


def test_a_broker_alone_must_know_where_the_controllers_are() -> None:
    with pytest.raises(ConfigError, match=r"set controller\.quorum\.bootstrap\.servers"):
        check_config(_role("broker"))
    check_config(_role("broker", controller_quorum_bootstrap_servers="other:9093"))
    with pytest.raises(ConfigError, match="names this node, which is no controller"):
        check_config(_role("broker", controller_quorum_voters="1@node:9093"))


def test_a_node_listens_for_what_it_is() -> None:
    assert [spec.is_controller for spec in listener_specs(_role("broker"))] == [False]
    assert [spec.is_controller for spec in listener_specs(_role("controller"))] == [True]
    with pytest.raises(ConfigError, match="is no controller has no listener"):
        listener_specs(_role("broker", listeners="PLAINTEXT://node:9092,CONTROLLER://node:9093"))


def test_empty_entries_of_the_protocol_map_are_nothing() -> None:
    config = _role("broker", listener_security_protocol_map="PLAINTEXT:PLAINTEXT,,CONTROLLER:PLAINTEXT, ")

    assert [spec.name for spec in listener_specs(config)] == ["PLAINTEXT"]


def test_log_directories_are_told_by_their_absolute_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    config = _role("broker", log_dirs=f"data,/other,{tmp_path}/data", metadata_log_dir="metadata")

    assert log_directories(config) == (f"{tmp_path}/metadata", f"{tmp_path}/data", "/other")
