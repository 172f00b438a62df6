"""The programs in the clients' document and in the README run as they are, each against a cluster of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidelog import Producer
from tidelog.testing import EmbeddedCluster

ROOT = Path(__file__).resolve().parents[2]
# The address in the documents, in place of which the test's own cluster stands.
ADDRESS = "127.0.0.1:9092"


def programs() -> list[tuple[str, str]]:
    """Each Python block that names a cluster, with where it is."""
    found = []
    for document in ("docs/clients.md", "README.md"):
        text = (ROOT / document).read_text()
        for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if ADDRESS in block[1]:
                line = text.count("\n", 0, block.start()) + 1
                found.append((f"{document}:{line}", block[1]))
    return found


@pytest.mark.parametrize("program", [pytest.param(code, id=place) for place, code in programs()])
def test_a_program_of_the_documents_runs(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedCluster() as cluster:
        if 'create_topic("orders"' not in program:
            cluster.create_topic("orders", partitions=1)
            with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                for number in range(10):
                    producer.send("orders", b"order %d" % number)
        exec(compile(program.replace(ADDRESS, cluster.bootstrap_servers), "document", "exec"), {})
    # What goes wrong in the background is only printed.
    assert capsys.readouterr().err == ""


def test_the_documents_have_programs_of_every_client() -> None:
    code = "".join(each for _, each in programs())

    for client in ("Producer", "Consumer", "Admin", "AsyncProducer", "AsyncConsumer", "AsyncAdmin"):
        assert re.search(rf"\b{client}\(", code), client
