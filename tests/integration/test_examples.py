"""The examples run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("program", "last_line"),
    [
        ("keep_a_log.py", "all of it as columns"),
        ("survive_a_kill.py", "demo passed"),
        ("live_orders.py", "demo passed"),
    ],
)
def test_an_example_runs(program: str, last_line: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, EXAMPLES / program, str(tmp_path / "data")], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1].startswith(last_line)


def test_every_example_is_tested_and_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"keep_a_log.py", "survive_a_kill.py", "live_orders.py"}
    assert all(path.name in listed for path in EXAMPLES.glob("*.py"))
