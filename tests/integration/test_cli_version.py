"""`tidelog version` as a person types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import tidelog
from tidelog.kernel_choice import EXTENSION, PACKAGE, choose, compiled_modules


def run(*arguments: str, kernels: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TIDELOG_KERNELS"}
    if kernels is not None:
        environment["TIDELOG_KERNELS"] = kernels
    command = [sys.executable, "-c", "from tidelog.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


# Where the modules of a process come from, told by it.
FILES = """
import importlib, pathlib, sys, tidelog.kernel_choice
root = pathlib.Path(tidelog.__file__).parent
for path in root.rglob("*.pxd"):
    if path.with_suffix(".py").exists():
        importlib.import_module(".".join(("tidelog", *path.relative_to(root).with_suffix("").parts)))
print(tidelog.kernel_choice.choice.twin)
for module in list(sys.modules.values()):
    if module.__name__.startswith("tidelog."):
        print(module.__name__, module.__file__)
"""


def files_of(kernels: str) -> tuple[str, dict[str, str]]:
    """The twin, and the file of each module."""
    environment = {**os.environ, "TIDELOG_KERNELS": kernels}
    command = [sys.executable, "-c", FILES]
    twin, *lines = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split(
        "\n"
    )
    return twin, dict(line.split(" ", 1) for line in lines if line)


def test_it_says_what_runs_and_why() -> None:
    answer = json.loads(run("version", "--json").stdout)

    why = choose(PACKAGE, "").reason
    assert answer["tidelog"] == tidelog.__version__
    assert answer["kernels"] == {"twin": "python" if why else "compiled", "why": why}


@pytest.mark.skipif(choose(PACKAGE, "").twin == "python", reason="nothing is compiled here")
def test_a_process_takes_all_extensions_or_none() -> None:
    twin, files = files_of("compiled")
    assert twin == "compiled"
    compiled = {name for name, file in files.items() if not file.endswith(".py")}
    assert {files[name] for name in compiled} == {f"{PACKAGE}/{EXTENSION}"}
    assert compiled == compiled_modules(PACKAGE) | {"tidelog._compiled"}

    twin, files = files_of("python")
    assert twin == "python"
    assert not [name for name, file in files.items() if not file.endswith(".py")]
    # The same modules under the same names.
    assert compiled - {"tidelog._compiled"} <= set(files)


def test_the_option_says_it_in_a_line() -> None:
    answer = run("--version")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"tidelog {tidelog.__version__}\n", "")


def test_plain_python_can_be_chosen() -> None:
    answer = run("version", kernels="python")

    assert answer.returncode == 0
    assert answer.stdout.endswith("\nkernels: python (chosen by TIDELOG_KERNELS)\n")


def test_a_wrong_choice_is_one_sentence() -> None:
    answer = run("version", kernels="fast")

    assert answer.returncode != 0
    assert answer.stderr == "tidelog: TIDELOG_KERNELS is 'fast'; it can be 'python' or 'compiled'\n"


def test_a_wrong_choice_is_an_error_of_what_is_imported() -> None:
    program = """
import tidelog, tidelog.kernel_choice
try:
    tidelog.Producer
except tidelog.kernel_choice.KernelUnavailableError as error:
    print(error)
"""
    environment = {**os.environ, "TIDELOG_KERNELS": "fast"}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)

    assert (said.stdout, said.stderr) == ("TIDELOG_KERNELS is 'fast'; it can be 'python' or 'compiled'\n", "")


def test_no_command_and_a_wrong_one_show_what_there_is() -> None:
    assert "dump-log" in run().stdout + run().stderr
    wrong = run("dumplog")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
