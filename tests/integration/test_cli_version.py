"""`tidelog version` as a person types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import tidelog

SOURCE = Path(tidelog.__file__).parent
KERNELS = {path.stem for path in SOURCE.rglob("kernels/*_kernel.py")}


def run(*arguments: str, kernels: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TIDELOG_KERNELS"}
    if kernels is not None:
        environment["TIDELOG_KERNELS"] = kernels
    command = [sys.executable, "-c", "from tidelog.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_it_names_every_kernel() -> None:
    answer = json.loads(run("version", "--json").stdout)

    assert answer["tidelog"] == tidelog.__version__
    assert "decode_kernel" in KERNELS
    assert set(answer["kernels"]) == KERNELS


def test_the_option_says_it_in_a_line() -> None:
    answer = run("--version")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"tidelog {tidelog.__version__}\n", "")


def test_plain_python_can_be_chosen() -> None:
    answer = run("version", kernels="python")

    assert answer.returncode == 0
    assert answer.stdout.count("python (chosen by TIDELOG_KERNELS)") == len(KERNELS)


def test_a_wrong_choice_is_one_sentence() -> None:
    answer = run("version", kernels="fast")

    assert answer.returncode != 0
    assert answer.stderr == "tidelog: TIDELOG_KERNELS is 'fast'; it can be 'python' or 'compiled'\n"


def test_no_command_and_a_wrong_one_show_what_there_is() -> None:
    assert "dump-log" in run().stdout + run().stderr
    wrong = run("dumplog")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
