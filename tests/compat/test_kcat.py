"""Kcat, an old and small client on librdkafka, against a node of ours."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.apache_kafka import NODE_ID, MissingProgramError, require
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 60.0

Done = subprocess.CompletedProcess[str]
Kcat = Callable[..., Done]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogNode]:
    node = TidelogNode.at(tmp_path_factory.mktemp("node"), num_partitions="2")
    with node.running():
        yield node


@pytest.fixture(scope="module")
def kcat(node: TidelogNode) -> Kcat:
    """Runs kcat against the node, and holds it to success unless told otherwise."""
    try:
        program = require("kcat", "kcat")
    except MissingProgramError as error:
        pytest.exit(str(error), returncode=1)

    def run(*arguments: str, given: str = "", fails: bool = False) -> Done:
        command = [program, "-b", node.bootstrap, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert (done.returncode != 0) is fails, done
        return done

    return run


def consume(kcat: Kcat, topic: str, *arguments: str) -> list[dict[str, Any]]:
    """The records of a topic up to its end, in the order of partitions and offsets."""
    done = kcat("-C", "-t", topic, "-e", "-q", "-J", *arguments)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return sorted(records, key=lambda record: (record["partition"], record["offset"]))


def test_kcat_lists_the_cluster(kcat: Kcat, node: TidelogNode, record_property: Callable[[str, object], None]) -> None:
    version = re.search(r"librdkafka (\S+)", kcat("-V").stdout)
    assert version is not None
    record_property("librdkafka", version[1])
    listed = json.loads(kcat("-L", "-J").stdout)
    assert listed["controllerid"] == NODE_ID
    assert listed["brokers"] == [{"id": NODE_ID, "name": node.bootstrap}]


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_reads_what_it_wrote(kcat: Kcat, codec: str) -> None:
    topic = f"codec-{codec}"
    lines = "".join(f"key {row}:{codec * 20} {row}\n" for row in range(200))
    kcat("-P", "-t", topic, "-z", codec, "-K", ":", "-H", "origin=kcat", "-H", "empty=", given=lines)

    found = consume(kcat, topic)

    assert sorted((record["key"], record["payload"]) for record in found) == sorted(
        (f"key {row}", f"{codec * 20} {row}") for row in range(200)
    )
    assert {record["partition"] for record in found} == {0, 1}
    for partition in (0, 1):
        offsets = [record["offset"] for record in found if record["partition"] == partition]
        assert offsets == list(range(len(offsets)))
    assert all(record["headers"] == ["origin", "kcat", "empty", ""] for record in found)
    assert all(record["tstype"] == "create" for record in found)


def test_kcat_writes_tombstones_and_with_idempotence(kcat: Kcat) -> None:
    kcat("-P", "-t", "gone", "-p", "0", "-Z", "-K", ":", given="key:\n")
    kcat("-P", "-t", "gone", "-p", "0", "-X", "enable.idempotence=true", given="".join(f"{row}\n" for row in range(50)))
    found = consume(kcat, "gone", "-p", "0")
    assert (found[0]["key"], found[0]["payload"]) == ("key", None)
    assert [record["payload"] for record in found[1:]] == [str(row) for row in range(50)]


def test_kcat_starts_where_it_is_told(kcat: Kcat) -> None:
    kcat("-P", "-t", "sought", "-p", "0", given="".join(f"{row}\n" for row in range(30)))
    records = consume(kcat, "sought", "-p", "0")
    assert [record["payload"] for record in consume(kcat, "sought", "-p", "0", "-o", "-4")] == ["26", "27", "28", "29"]
    assert [record["offset"] for record in consume(kcat, "sought", "-p", "0", "-o", "7", "-c", "2")] == [7, 8]
    written_at = records[0]["ts"]
    assert consume(kcat, "sought", "-p", "0", "-o", f"s@{written_at}") == records
    offsets = {at: kcat("-Q", "-t", f"sought:0:{at}").stdout.strip() for at in (-2, -1, written_at, written_at + 10**7)}
    assert offsets == {
        -2: "sought [0] offset 0",
        -1: "sought [0] offset 30",
        written_at: "sought [0] offset 0",
        written_at + 10**7: "sought [0] offset -1",
    }


def test_kcat_is_told_of_a_topic_that_is_not_there(kcat: Kcat) -> None:
    done = kcat("-C", "-t", "nowhere", "-e", "-X", "allow.auto.create.topics=false", fails=True)
    assert "Unknown topic or partition" in done.stderr
    assert "nowhere" not in {topic["topic"] for topic in json.loads(kcat("-L", "-J").stdout)["topics"]}
