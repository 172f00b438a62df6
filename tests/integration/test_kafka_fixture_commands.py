"""The command line reads the data directories that Apache Kafka wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka_fixtures import KafkaFixture

TIDELOG = Path(sys.executable).with_name("tidelog")


def tidelog(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TIDELOG, *arguments], capture_output=True, text=True, encoding="utf-8", timeout=60, check=False
    )


def test_verify_finds_nothing_wrong(kafka_fixture: KafkaFixture) -> None:
    done = tidelog("verify", kafka_fixture.data)

    assert (done.returncode, done.stderr) == (0, "")
    assert "0 errors, 0 warnings" in done.stdout


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("codec-zstd-0/00000000000000000010.log", -1),
        ("timed-0/00000000000000000000.index", 3),
        ("timed-0/00000000000000000012.timeindex", 7),
        ("transactional-0/00000000000000000016.txnindex", 9),
        ("idempotent-0/00000000000000000024.snapshot", -1),
    ],
)
def test_verify_finds_one_wrong_bit(clean_kafka: KafkaFixture, tmp_path: Path, name: str, position: int) -> None:
    data = clean_kafka.copy(tmp_path)
    content = bytearray((data / name).read_bytes())
    content[position] ^= 1
    (data / name).write_bytes(content)

    done = tidelog("verify", data)

    assert done.returncode == 1
    assert name in done.stdout + done.stderr


def test_dump_log_shows_every_batch_and_record(kafka_fixture: KafkaFixture) -> None:
    names = sorted(kafka_fixture.expected["batches"])
    done = tidelog("dump-log", "--json", *(kafka_fixture.data / name for name in names))

    assert (done.returncode, done.stderr) == (0, "")
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    batches = [batch for name in names for batch in kafka_fixture.expected["batches"][name]]
    assert [(line["base_offset"], line["crc"]) for line in shown if line["type"] == "batch"] == [
        (batch["base_offset"], batch["crc"]) for batch in batches
    ]
    rows = [row for batch in batches for row in batch["records"]]
    assert [(line["offset"], line["timestamp"]) for line in shown if line["type"] == "record"] == [
        (row["offset"], row["timestamp"]) for row in rows
    ]
