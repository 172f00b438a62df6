"""Franz-go, a client in Go that shares no code with the others, against a node of ours."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.apache_kafka import NODE_ID
from tests.support.go_program import SOURCE, built
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000
ROWS = 200
TIMEOUT_S = 60.0

Franz = Callable[..., Any]


class FranzError(Exception):
    """The program ended with an error; the message is what it printed."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogNode]:
    node = TidelogNode.at(tmp_path_factory.mktemp("node"))
    with node.running():
        yield node


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("franz"), "build", ".")


@pytest.fixture
def franz(program: Path, node: TidelogNode) -> Franz:
    """Runs one command of the program; FranzError where it fails."""

    def run(command: str, *arguments: object) -> Any:
        done = subprocess.run(
            [str(program), node.bootstrap, command, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise FranzError(done.stderr)
        return json.loads(done.stdout)

    return run


def in_order(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: (record["partition"], record["offset"]))


def test_franz_go_finds_the_cluster(
    franz: Franz, node: TidelogNode, record_property: Callable[[str, object], None]
) -> None:
    version = re.search(r"franz-go (v\S+)", (SOURCE / "go.mod").read_text())
    assert version is not None
    record_property("franz-go", version[1])
    identity = re.search(r"^cluster\.id=(.*)$", (node.data / "meta.properties").read_text(), re.MULTILINE)
    assert identity is not None
    assert franz("cluster") == {
        "cluster": identity[1],
        "controller": NODE_ID,
        "brokers": [f"{NODE_ID} {node.bootstrap}"],
    }


@pytest.mark.parametrize("codec", CODECS)
def test_franz_go_reads_what_it_wrote(franz: Franz, codec: str) -> None:
    topic = f"codec-{codec}"
    franz("create", topic, 3)

    sent = in_order(franz("produce", topic, codec, ROWS))
    found = in_order(franz("consume", topic, 3, len(sent)))

    assert len(sent) == ROWS + 2
    assert found == sent
    assert {record["key"] for record in found} == {*(f"{codec} {row}" for row in range(ROWS)), f"{codec} gone", None}
    ends = {partition: end for partition, (_, end) in franz("offsets", topic).items()}
    assert sum(ends.values()) == len(sent)


def test_franz_go_starts_at_a_time(franz: Franz) -> None:
    franz("create", "timed", 1)
    franz("produce", "timed", "lz4", ROWS)
    found = franz("consume", "timed", 1, 1, START_MS + 150)
    assert (found[0]["key"], found[0]["timestamp"]) == ("lz4 150", START_MS + 150)


def test_franz_go_administers_topics(franz: Franz) -> None:
    first = franz("create", "managed", 2, "retention.ms=1000000000000")
    with pytest.raises(FranzError, match="TOPIC_ALREADY_EXISTS"):
        franz("create", "managed", 2)
    assert franz("alter", "managed", "max.message.bytes", "2000000") == {
        "retention.ms": "1000000000000",
        "max.message.bytes": "2000000",
    }
    with pytest.raises(FranzError, match="INVALID_CONFIG"):
        franz("alter", "managed", "max.message.bytes", "-7")
    franz("delete", "managed")
    with pytest.raises(FranzError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        franz("delete", "managed")
    assert franz("create", "managed", 1) != first


def test_franz_go_deletes_records(franz: Franz) -> None:
    franz("create", "trimmed", 1)
    franz("produce", "trimmed", "zstd", ROWS)
    assert franz("trim", "trimmed", 120) == 120
    assert franz("offsets", "trimmed") == {"0": [120, ROWS + 2]}
    assert franz("consume", "trimmed", 1, 1)[0]["offset"] == 120
    with pytest.raises(FranzError, match="OFFSET_OUT_OF_RANGE"):
        franz("trim", "trimmed", ROWS + 3)


def test_franz_go_groups_share_commit_and_go_on(franz: Franz) -> None:
    franz("create", "shared", 4)
    sent = in_order(franz("produce", "shared", "none", ROWS))
    assert in_order(franz("group", "shared", "readers", 3, len(sent))) == sent
    first = franz("committed", "readers")
    assert (first["state"], first["kind"], sum(first["offsets"].values())) == ("Empty", "consumer", len(sent))

    more = franz("produce", "shared", "none", ROWS)
    # Only what is new: the group goes on where it was.
    assert in_order(franz("group", "shared", "readers", 2, len(more))) == in_order(more)
    assert sum(franz("committed", "readers")["offsets"].values()) == len(sent) + len(more)
