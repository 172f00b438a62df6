"""The examples run as they are."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


# What each is called with, and how its last line begins.
PROGRAMS: dict[str, tuple[list[str], str]] = {
    "keep_a_log.py": ([], "all of it as columns"),
    "survive_a_kill.py": ([], "demo passed"),
    "live_orders.py": (["--orders", "300"], "demo passed"),
}
# Processes of live_orders.py.
PARTS = {"order_biller.py", "order_reader.py"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_runs(program: str, tmp_path: Path) -> None:
    arguments, last_line = PROGRAMS[program]
    run = subprocess.run(
        [sys.executable, EXAMPLES / program, str(tmp_path / "data"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1].startswith(last_line)


# kafka-python, while it is imported.
@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        (["placed", "paid", "shipped"], "a reader: order-0 and 0 more are not whole: ['placed', 'paid', 'shipped']"),
        (["placed", "paid", "shipped", "delivered", "delivered"], "a reader: order-0 and 0 more are not whole"),
        (["paid", "placed", "shipped", "delivered"], "a reader: order-0 and 0 more are not whole"),
        (None, "a reader: 1 orders are missing of 1"),
    ],
)
def test_the_account_of_the_orders_notices_what_is_wrong(states: list[str] | None, sentence: str) -> None:
    check = runpy.run_path(str(EXAMPLES / "live_orders.py"))["check"]

    with pytest.raises(SystemExit) as ended:
        check({} if states is None else {"order-0": states}, 1, "a reader")

    assert str(ended.value).startswith(sentence)


def test_every_example_is_tested_and_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert {path.name for path in EXAMPLES.glob("*.py")} == PROGRAMS.keys() | PARTS
    assert all(path.name in listed for path in EXAMPLES.glob("*.py"))
