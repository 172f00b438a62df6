"""Which twin of the compiled modules a process takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kernel_twins import can_compile
from tidelog.kernel_choice import EXTENSION_SUFFIX, STAMP, Choice, SourceFinder, choice, choose, stamp
from tidelog.model.shared_timers import SharedTimers

SOURCES = ("adder.py", "adder.pxd", "layout.pxd")
BUILT = (f"adder{EXTENSION_SUFFIX}",)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that was built. What stands for the extension is an empty file: nobody loads it here."""
    for name in (*SOURCES, *BUILT):
        (tmp_path / name).write_text("")
    (tmp_path / STAMP).write_text(stamp(str(tmp_path), SOURCES, BUILT))
    return tmp_path


def chosen(package: Path, wanted: str = "") -> tuple[str, str, str]:
    made: Choice = choose(str(package), wanted)
    return made.twin, made.reason, made.refusal


def test_what_was_built_serves(package: Path) -> None:
    assert chosen(package) == ("compiled", "", "")
    assert chosen(package, "compiled") == ("compiled", "", "")


def test_plain_python_can_be_chosen(package: Path) -> None:
    assert chosen(package, "python") == ("python", "chosen by TIDELOG_KERNELS", "")


def test_where_nothing_was_built_the_sources_serve_and_say_why(package: Path) -> None:
    (package / STAMP).unlink()
    why = "the kernels were not compiled when tidelog was installed"

    assert chosen(package) == ("python", why, "")
    assert chosen(package, "compiled") == ("python", why, f"TIDELOG_KERNELS=compiled, but {why}")


@pytest.mark.parametrize("name", SOURCES)
def test_an_extension_never_shadows_an_edit(package: Path, name: str) -> None:
    (package / name).write_text("cdef int added\n")

    twin, reason, _ = chosen(package)
    assert (twin, reason) == ("python", "a kernel was edited after it was compiled; install again to rebuild it")


def test_bytes_that_moved_from_one_file_to_another_are_an_edit(package: Path) -> None:
    (package / "adder.pxd").write_text("ab")
    (package / "layout.pxd").write_text("c")
    (package / STAMP).write_text(stamp(str(package), SOURCES, BUILT))
    assert chosen(package)[0] == "compiled"
    (package / "adder.pxd").write_text("a")
    (package / "layout.pxd").write_text("bc")

    assert chosen(package)[0] == "python"


@pytest.mark.parametrize("name", [*SOURCES, *BUILT])
def test_a_lost_file_leaves_all_to_the_sources(package: Path, name: str) -> None:
    (package / name).unlink()

    twin, reason, _ = chosen(package)
    assert twin == "python"
    assert reason == f"{package}/{name} is missing; install again to rebuild the kernels"


def test_another_word_is_refused(package: Path) -> None:
    refusal = "TIDELOG_KERNELS is 'fast'; it can be 'python' or 'compiled'"

    assert chosen(package, "fast") == ("python", refusal, refusal)


def test_the_finder_leaves_other_packages_alone(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("")
    (tmp_path / f"other{EXTENSION_SUFFIX}").write_text("")
    finder = SourceFinder()

    assert finder.find_spec("tidelog.module", [str(tmp_path)]) is not None
    assert finder.find_spec("tidelog.other", [str(tmp_path)]) is None
    assert finder.find_spec("someone.module", [str(tmp_path)]) is None
    assert finder.find_spec("tidelog") is None


def test_this_process_runs_what_it_was_told_to() -> None:
    """A build that failed must not make the suite pass over the sources alone."""
    if os.environ.get("TIDELOG_KERNELS") == "python" or not can_compile():
        assert choice.twin == "python"
    else:
        assert (choice.twin, choice.reason) == ("compiled", "")


def test_a_compiled_class_has_the_name_of_its_source() -> None:
    assert SharedTimers.__module__ == "tidelog.model.shared_timers"
    is_compiled = sys.modules[SharedTimers.__module__].__file__.endswith(EXTENSION_SUFFIX)  # type: ignore[union-attr]
    assert is_compiled == (choice.twin == "compiled")


def test_the_choice_imports_nothing_of_its_own() -> None:
    """Every process start pays for it: the interpreter without `site` has all that it needs."""
    source = str(Path(__file__).parents[2] / "src")
    program = """
import os, sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
import tidelog
print(*(set(sys.modules) - before))
"""
    said = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program, source], capture_output=True, text=True, check=True
    )

    assert set(said.stdout.split()) == {"tidelog", "tidelog.kernel_choice"}
