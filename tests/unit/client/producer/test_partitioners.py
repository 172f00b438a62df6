"""Where records go: as Kafka's Java client would put them, or evenly."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from random import Random

import pytest

from tidelog.client.producer import murmur2
from tidelog.client.producer.partitioners import RoundRobin, next_sticky

# What org.apache.kafka.common.utils.Utils.murmur2 of Kafka 4.3.1 makes of some keys, base64-encoded here.
GOLDEN = json.loads((Path(__file__).parents[3] / "fixtures" / "clients" / "murmur2.json").read_text())


@pytest.mark.parametrize(("encoded", "java"), GOLDEN)
def test_murmur2_has_the_bits_of_the_java_clients(encoded: str, java: int) -> None:
    key = b64decode(encoded)

    assert murmur2.murmur2(key) == java & 0xFFFFFFFF
    assert murmur2.partition_of(key, 7) == (java & 0x7FFFFFFF) % 7


def test_a_column_of_keys_goes_where_each_key_would() -> None:
    pa = pytest.importorskip("pyarrow")
    keys = [b64decode(encoded) for encoded, _ in GOLDEN] + [None]
    column = pa.array([b"before", *keys], pa.large_binary()).slice(1)
    validity, offsets, data = column.buffers()
    out = memoryview(bytearray(4 * len(keys))).cast("i")

    murmur2.partition_rows(
        memoryview(offsets)[: 8 * (len(keys) + 2)].cast("q"),
        memoryview(data).cast("B"),
        memoryview(validity).cast("B"),
        column.offset,
        len(keys),
        7,
        -1,
        out,
    )

    assert out.tolist() == [-1 if key is None else murmur2.partition_of(key, 7) for key in keys]


def test_round_robin_takes_turns_by_topic() -> None:
    partitioner = RoundRobin()

    assert [partitioner("a", b"key", None, 3) for _ in range(4)] == [0, 1, 2, 0]
    assert partitioner("b", None, None, 3) == 0


def test_the_next_sticky_partition_is_another_one() -> None:
    random = Random(1)

    assert {next_sticky(random, 1, [0, 1, 2], None) for _ in range(50)} == {0, 2}
    assert next_sticky(random, 1, [1], None) == 1
    assert next_sticky(random, 1, [1], [7]) == 1


def test_a_long_queue_is_chosen_less_often() -> None:
    random = Random(1)

    chosen = [next_sticky(random, 0, [0, 1, 2], [9, 0, 0]) for _ in range(1000)]

    # The weights are 1, 10 and 10.
    assert chosen.count(0) < 100
    assert min(chosen.count(1), chosen.count(2)) > 350
