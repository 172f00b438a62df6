"""Ctrl-C while `tidelog` is still starting: the process ends with the shell's code for it and says nothing.

The moments are named by what is being imported, so that they are the same on a slow machine: a hook of Python's own, in place
before the command's script begins, sends the signal when the n-th module of the start is looked for.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TIDELOG = Path(sys.executable).parent / "tidelog"
DEADLINE_S = 60.0
IN_MAIN = re.compile(r'tidelog/cli/main\.py", line \d+, in main')

# Python imports it before it runs a script. Sees what is imported from Tidelog's first module on until a command runs: from then
# on it is the command that says how it ends.
SITECUSTOMIZE = """
import os, sys  # which are there already: what a command imports is still to be imported

at, note = int(os.environ.pop("SIGINT_AT", -1)), os.environ.pop("IMPORTS_NOTE", os.devnull)
imported = []

def runs_command():
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "exit_code_of":
        frame = frame.f_back
    return frame is not None

def count(event, arguments):
    if event == "import" and (imported or arguments[0].startswith("tidelog")) and not runs_command():
        imported.append(arguments[0])
        if len(imported) == at:
            os.kill(os.getpid(), 2)
        with open(note, "a") as file:
            file.write(arguments[0] + "\\n")

if at >= 0:
    sys.addaudithook(count)
"""

COMMANDS = (
    "version --json",
    "--help",
    "broker --set log.dirs={directory} --set listeners=PLAINTEXT://127.0.0.1:0",
    "up --port 0 --dir {directory}",
    "consume orders --bootstrap 127.0.0.1:1",
)


def started(words: str, tmp_path: Path, **variables: str) -> subprocess.Popen[str]:
    (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
    return subprocess.Popen(
        [TIDELOG, *words.format(directory=tmp_path / "data").split()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, "PYTHONPATH": str(tmp_path), **variables},
    )


def imports_of(words: str, tmp_path: Path) -> list[str]:
    """What a command looks for, in order, before it runs."""
    note = tmp_path / "imports"
    with started(words, tmp_path, SIGINT_AT="0", IMPORTS_NOTE=str(note)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        process.communicate(timeout=DEADLINE_S)
    return note.read_text().splitlines()


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words.split()[0])
def test_ctrl_c_during_the_imports_is_silent(words: str, tmp_path: Path) -> None:
    imported = imports_of(words, tmp_path)
    assert len(imported) > 50
    # Before the entry point is called nobody can guard anything, so next to nothing is imported.
    first = imported.index("tidelog.cli.interrupts") + 1
    assert set(imported[: first - 1]) == {"tidelog", "tidelog.kernel_choice", "tidelog.cli", "tidelog.cli.main", "gc"}
    steps = {*range(first, first + 4), *range(first + 4, len(imported), len(imported) // 8), len(imported)}

    outcomes = {}
    for step in sorted(steps):
        with started(words, tmp_path, SIGINT_AT=str(step)) as process:
            output, errors = process.communicate(timeout=DEADLINE_S)
            outcomes[step, imported[step - 1]] = (process.returncode, output, errors)

    assert outcomes == dict.fromkeys(outcomes, (130, "", ""))


def test_ctrl_c_at_any_time_is_no_traceback_of_ours(tmp_path: Path) -> None:
    """By the clock, as a person presses it: before the script's first line it is Python's own start that is interrupted."""
    for delay_ms in range(10, 200, 15):
        with started("up --port 0", tmp_path) as process:
            try:
                process.communicate(timeout=delay_ms / 1000)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=DEADLINE_S)
        assert IN_MAIN.search(errors) is None, errors


def test_where_ctrl_c_is_ignored_it_stays_so(tmp_path: Path) -> None:
    """As in a shell script's background."""
    variables = {"PYTHONPATH": str(tmp_path), "SIGINT_AT": "100"}
    (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE)
    answer = subprocess.run(
        ["sh", "-c", f"trap '' INT; exec {TIDELOG} version"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
        timeout=DEADLINE_S,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
