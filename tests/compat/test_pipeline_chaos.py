"""`tidelog pipeline chaos` on files with and without a planted mistake: a cluster of processes, drivers, minutes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_pipeline_kills import PLANTED

# By which the driver dies first of all behind the write of a batch, then a worker and a node.
SEED = "131"
pytestmark = [pytest.mark.compat, pytest.mark.timeout(1800)]
DEADLINE_S = 1500


def chaos(name: str, directory: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """What it answers. What planted pipelines keep beside their sinks lies in the directory."""
    command = [sys.executable, "-m", "tidelog.cli", "pipeline", "chaos", str(PLANTED / f"{name}.py"), "--json"]
    done = subprocess.run(
        [*command, "--seed", SEED, "--minutes", "1.5", "--rate", "20", *more],
        env={**os.environ, "TMPDIR": str(directory)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode in {0, 1}, done.stderr
    (line,) = done.stdout.splitlines()
    return done.returncode, json.loads(line)


def test_a_right_pipeline_has_each_row_once_under_kills_of_everything(tmp_path: Path) -> None:
    code, answer = chaos("right", tmp_path)

    assert (code, answer["each_row_once"], answer["differences"]) == (0, True, [])
    assert all(answer["kills"].values()), answer
    assert answer["rows_out"] > answer["rows_in"] > 0
    assert answer["batches_verified"] > 0
    assert list(tmp_path.glob("tidelog-chaos-*")) == [], "nothing is left of it"


@pytest.mark.parametrize(
    ("name", "sink", "more"),
    [("counts_twice", "numbered", ()), ("commits_first", "new", ()), ("loses_late", "sums", ("--late", "5 minutes"))],
)
def test_a_planted_mistake_is_found(tmp_path: Path, name: str, sink: str, more: tuple[str, ...]) -> None:
    code, answer = chaos(name, tmp_path, *more)

    assert (code, answer["each_row_once"]) == (1, False)
    assert [each.partition(":")[0] for each in answer["differences"]] == [sink]
