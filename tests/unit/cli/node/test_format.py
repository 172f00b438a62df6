"""`tidelog format`, and what `format` and `up` say to a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import json_lines, tidelog
from tidelog.controller.snapshot_file import read_snapshot
from tidelog.raft.control_records import Voters
from tidelog.storage.meta_properties import read_meta_properties
from tidelog.storage.os_files import OsFiles
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(
        "node.id=4\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path}/a,{tmp_path}/b\n"
    )
    return path


def test_every_directory_gets_an_identity_of_its_own(properties: Path, tmp_path: Path) -> None:
    result = tidelog("format", "--config", properties, "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qk", "--json")

    rows = json_lines(result)
    identities = [read_meta_properties(OsFiles(), str(tmp_path / name)) for name in "ab"]
    assert [row["state"] for row in rows] == ["formatted", "formatted"]
    assert [(each.cluster_id, each.node_id) for each in identities if each] == [("MkU3OEVBNTcwNTJENDM2Qk", 4)] * 2
    assert rows[0]["directory_id"] != rows[1]["directory_id"]
    assert (tmp_path / "a" / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint").exists()
    assert not (tmp_path / "b" / "__cluster_metadata-0").exists()


def test_what_is_formatted_is_refused_or_left(properties: Path, tmp_path: Path) -> None:
    tidelog("format", "--config", properties)
    before = (tmp_path / "a" / "meta.properties").read_bytes()

    again = tidelog("format", "--config", properties)
    ignoring = tidelog("format", "--config", properties, "--ignore-formatted")

    assert again.exit_code == 1
    assert "is formatted already, for node 4 of cluster" in again.stderr
    assert ignoring.exit_code == 0
    assert ignoring.stdout.startswith(f"left {tmp_path}/a: node 4 of cluster")
    assert (tmp_path / "a" / "meta.properties").read_bytes() == before


def levels_in(directory: Path) -> dict[str, int]:
    framed = read_snapshot(OsFiles(), str(directory / "bootstrap.checkpoint")).records
    levels = [each.message for each in framed if isinstance(each.message, FeatureLevelRecord)]
    assert len(levels) == len(framed)
    return {each.name: each.feature_level for each in levels}


@pytest.mark.parametrize(
    ("arguments", "levels"),
    [
        (["-r", "3.3"], {"metadata.version": 7}),
        (["--release-version", "3.7-IV2", "-f", "group.version=1"], {"metadata.version": 17, "group.version": 1}),
        (["--release-version", "4.0.1"], {"metadata.version": 25, "group.version": 1, "transaction.version": 2}),
        (["-f", "metadata.version=23", "-f", "group.version=0"], {"metadata.version": 23}),
        (["-r", "3.9", "--feature", "kraft.version=1"], {"metadata.version": 21}),
    ],
)
def test_a_cluster_begins_with_the_levels_that_are_asked_for(
    properties: Path, tmp_path: Path, arguments: list[str], levels: dict[str, int]
) -> None:
    assert tidelog("format", "--config", properties, *arguments).exit_code == 0

    assert levels_in(tmp_path / "a") == levels_in(tmp_path / "b") == levels


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-r", "3.2"], "'3.2' is no release with a metadata.version that is served: those are 3.3-IV3 to 4.3-IV0"),
        (["-r", "4.4"], "'4.4' is no release"),
        (["-f", "metadata.version=31"], "metadata.version has the levels 7 to 30, not 31"),
        (["-f", "metadata.version=7", "-r", "3.3"], "Use --release-version instead of --feature metadata.version=X"),
        (["-f", "unheard.of=1"], "Unsupported feature: unheard.of. Supported features are: eligible.leader.replicas"),
        (["-f", "group.version"], "--feature is a name and a level, for example group.version=1, not 'group.version'"),
        (["-f", "group.version=-1"], "--feature is a name and a level"),
        (["-f", "group.version=1", "-f", "group.version=0"], "--feature names group.version twice"),
        (
            ["-r", "3.9", "-f", "eligible.leader.replicas.version=1"],
            "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23",
        ),
        (["-f", "kraft.version=0"], "kraft.version is 0 with controller.quorum.voters and 1 without"),
    ],
)
def test_levels_that_make_no_sense_are_one_sentence(
    properties: Path, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    result = tidelog("format", "--config", properties, *arguments)

    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "a" / "meta.properties").exists()


def test_another_cluster_is_refused(properties: Path) -> None:
    tidelog("format", "--config", properties, "--cluster-id", "one")

    other = tidelog("format", "--config", properties, "--cluster-id", "other", "--ignore-formatted")

    assert other.exit_code == 1
    assert "belongs to cluster one, not to other" in other.stderr


VOTERS = "4@one:9093:F6Q5sCdKR3mLmpUTYTnHrQ, 5@[::1]:9094:ygnzyFiRQ3yUm2YhTHbRdw"


def first_voters(directory: Path) -> list[tuple[int, str, int]]:
    """Who votes, and where they listen, as a directory was formatted."""
    snapshot = read_snapshot(
        OsFiles(), str(directory / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint")
    )
    (voters,) = [record.voter_set for record in snapshot.head.control if isinstance(record, Voters)]
    return [(each.key.id, each.endpoints[0].host, each.endpoints[0].port) for each in voters.voters]


def test_the_initial_controllers_are_the_same_for_every_node(properties: Path, tmp_path: Path) -> None:
    for number in (4, 6):
        directory = tmp_path / f"of-{number}"
        settings = ["--set", f"node.id={number}", "--set", f"log.dirs={directory}"]
        arguments = ["--cluster-id", "one", "--initial-controllers", VOTERS]
        rows = json_lines(tidelog("format", "--config", properties, *settings, *arguments, "--json"))

        assert first_voters(directory) == [(4, "one", 9093), (5, "::1", 9094)]
        assert (rows[0]["directory_id"] == "F6Q5sCdKR3mLmpUTYTnHrQ") is (number == 4)


def test_a_node_that_joins_names_no_voters(properties: Path, tmp_path: Path) -> None:
    result = tidelog("format", "--config", properties, "--cluster-id", "one", "--no-initial-controllers")

    assert result.exit_code == 0
    assert (tmp_path / "a" / "bootstrap.checkpoint").exists()
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()


def test_a_node_that_stands_alone_is_the_voter(properties: Path, tmp_path: Path) -> None:
    several = ["--set", "controller.quorum.bootstrap.servers=one:9093,two:9093"]

    unsaid = tidelog("format", "--config", properties, *several)
    standalone = tidelog("format", "--config", properties, *several, "--standalone")

    assert unsaid.exit_code == 2
    assert "say who votes with --initial-controllers" in unsaid.stderr
    assert standalone.exit_code == 0
    assert first_voters(tmp_path / "a") == [(4, "localhost", 9093)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--standalone", "--no-initial-controllers"], "--standalone and --no-initial-controllers exclude each other"),
        (["--standalone", "--set", "controller.quorum.voters=4@one:9093"], "remove controller.quorum.voters"),
        (["--standalone", "--set", "process.roles=broker"], "--standalone is for a controller"),
        (["-I", VOTERS], "--initial-controllers needs --cluster-id"),
        (
            ["-I", VOTERS, "--cluster-id", "one", "--set", "process.roles=broker"],
            "names this node, which is no controller",
        ),
        (["-I", "4@one:9093", "--cluster-id", "one"], "Invalid initial controller 4@one:9093: expected id@host:port:"),
        (["-I", "4@one:0:F6Q5sCdKR3mLmpUTYTnHrQ", "--cluster-id", "one"], "Invalid initial controller"),
        (["-I", "4@one:9093:AAAAAAAAAAAAAAAAAAAAAA", "--cluster-id", "one"], "Invalid initial controller"),
        (["-I", f"{VOTERS},4@two:1:mE4Z0tKKRAiEkSeVMyEvYQ", "--cluster-id", "one"], "a node is named twice"),
        (["-I", f"{VOTERS},6@two:1:F6Q5sCdKR3mLmpUTYTnHrQ", "--cluster-id", "one"], "a directory is named twice"),
    ],
)
def test_voters_that_make_no_sense_are_one_sentence(
    properties: Path, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    result = tidelog("format", "--config", properties, *arguments)

    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "a" / "meta.properties").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["format"], "tidelog format: node.id is not set: "),
        (["format", "--set", "node.id=1"], "tidelog format: controller.listener.names is not set: "),
        (
            [
                "format",
                "--set",
                "node.id=1",
                "--set",
                "controller.listener.names=C",
                "--set",
                "listeners=PLAINTEXT://:9092,C://:0",
            ],
            "tidelog format: listener C has port 0: ",
        ),
        (["up", "--nodes", "100"], "tidelog up: 100 nodes are more than one machine is for: "),
        (["up", "--nodes", "2", "--port", "65535"], "tidelog up: there is no port 65536: "),
        (["up", "--nodes", "2", "--port", "0", "--set", "node.id=4"], "tidelog up: node.id cannot be set here: "),
        (
            ["up", "--set", "num.partitons=3"],
            "tidelog up: Unknown configuration num.partitons; did you mean num.partitions?",
        ),
        (["up", "--set", "num.partitions"], "tidelog up: 'num.partitions' is not a setting: "),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], sentence: str) -> None:
    result = tidelog(*arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1
