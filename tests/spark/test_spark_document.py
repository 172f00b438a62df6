"""The programs of docs/spark.md run as they are, one after another as a reader would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog import Producer
from tidelog.spark.sink_options import NAMES as SINK_NAMES
from tidelog.spark.source_options import NAMES
from tidelog.testing import EmbeddedCluster

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "spark.md"


def test_the_programs_of_the_document_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = DOCUMENT.read_text()
    programs = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(programs) == 5
    names: dict[str, object] = {}
    with EmbeddedCluster(directory=tmp_path / "data") as cluster:
        cluster.create_topic("orders", partitions=1)
        cluster.create_topic("copied", partitions=1)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("orders", b'{"id": %d, "price": 1.5}' % number)
        for program in programs:
            mine = (
                program.replace("127.0.0.1:9092", cluster.bootstrap_servers)
                .replace("/data/tidelog", cluster.directory)
                .replace("/data/checkpoints", str(tmp_path / "checkpoints"))
            )
            exec(compile(mine, "document", "exec"), names)
    printed = capsys.readouterr().out

    assert '|        0|     9|{"id": 9, ' in printed
    assert "15.0" in printed, "the sum of the prices"
    assert "|        0|   10|" in printed, "the count of the files"
    assert "10 copied" in printed


def test_every_option_is_described() -> None:
    prose = re.sub(r"^```.*?^```$", "", DOCUMENT.read_text(), flags=re.MULTILINE | re.DOTALL)
    described = set(re.findall(r"`([^`]+)`", prose))

    assert {*NAMES, *SINK_NAMES} <= described
