"""What a process of Spark's imports for what it is asked, which is what its user waits for."""

from __future__ import annotations

import subprocess
import sys

import pytest


def imported(*statements: str) -> set[str]:
    """The modules of a new interpreter that does this."""
    program = "; ".join(("import sys", *statements, "print(*sys.modules, sep='\\n')"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "spared"),
    [
        (
            "import pyspark_tidelog",
            ("tidelog.client.admin", "tidelog.wire", "tidelog.storage", "tidelog.spark.sink.sink"),
        ),
        (
            "import tidelog.spark.source.source_cluster",
            ("tidelog.client.admin.async_admin", "tidelog.wire.record_batch", "crc32c"),
        ),
        ("import tidelog.spark.sink.sink", ("tidelog.client.admin", "tidelog.wire", "tidelog.client.producer.core")),
        ("import tidelog.spark.sink.sink_transactions", ("tidelog.client.admin", "tidelog.spark.sink.sink_committer")),
        (
            "import tidelog.spark.source.task_reading",
            ("tidelog.client.admin", "tidelog.storage", "tidelog.spark.sink.sink"),
        ),
    ],
    ids=["load", "plan a read", "plan a write", "write in a task", "read in a task"],
)
def test_a_process_imports_what_it_needs_and_no_more(statement: str, spared: tuple[str, ...]) -> None:
    modules = imported(statement)

    assert any(name.startswith("tidelog.spark.") for name in modules), "something was imported"
    assert not modules & set(spared)
