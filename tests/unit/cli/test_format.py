"""`tidelog format`, and what `format` and `up` say to a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import json_lines, tidelog
from tidelog.storage.files import OsFiles
from tidelog.storage.meta_properties import read_meta_properties


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


def test_another_cluster_is_refused(properties: Path) -> None:
    tidelog("format", "--config", properties, "--cluster-id", "one")

    other = tidelog("format", "--config", properties, "--cluster-id", "other", "--ignore-formatted")

    assert other.exit_code == 1
    assert "belongs to cluster one, not to other" in other.stderr


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
        (["up", "--nodes", "3"], "tidelog up: a cluster of 3 nodes is not supported yet: "),
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
