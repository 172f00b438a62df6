"""Which twin of the compiled modules a process takes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tests.support.kernel_twins import can_compile
from tidelog.kernel_choice import (
    EXTENSION,
    PACKAGE,
    STAMP,
    Choice,
    CompiledModules,
    KernelUnavailableError,
    RefusedModules,
    choice,
    choose,
    compiled_modules,
    stamp,
)
from tidelog.model.shared_timers import SharedTimers

SOURCES = ("adder.py", "net/adder.py", "adder.pxd", "net/adder.pxd", "layout.pxd", "_compiled.c")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that was built. What stands for the extension is an empty file: nobody loads it here."""
    (tmp_path / "net").mkdir()
    for name in (*SOURCES, EXTENSION):
        (tmp_path / name).write_text("")
    (tmp_path / STAMP).write_text(stamp(str(tmp_path), SOURCES))
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
    (package / STAMP).write_text(stamp(str(package), SOURCES))
    assert chosen(package)[0] == "compiled"
    (package / "adder.pxd").write_text("a")
    (package / "layout.pxd").write_text("bc")

    assert chosen(package)[0] == "python"


@pytest.mark.parametrize("name", [*SOURCES, EXTENSION])
def test_a_lost_file_leaves_all_to_the_sources(package: Path, name: str) -> None:
    (package / name).unlink()

    twin, reason, _ = chosen(package)
    assert twin == "python"
    assert reason == f"{package}/{name} is missing; install again to rebuild the kernels"


def test_another_word_is_refused(package: Path) -> None:
    refusal = "TIDELOG_KERNELS is 'fast'; it can be 'python' or 'compiled'"

    assert chosen(package, "fast") == ("python", refusal, refusal)


def test_the_extension_holds_every_module_with_types_beside_it(package: Path) -> None:
    assert compiled_modules(str(package)) == {"tidelog.adder", "tidelog.net.adder"}


def test_the_finder_leaves_other_modules_alone(package: Path) -> None:
    extension = str(package / EXTENSION)
    finder = CompiledModules(compiled_modules(str(package)), extension)

    found = finder.find_spec("tidelog.net.adder", [str(package / "net")])
    assert found is not None
    assert (found.name, found.origin, found.has_location) == ("tidelog.net.adder", extension, True)
    assert finder.find_spec("tidelog.net", [str(package)]) is None
    assert finder.find_spec("tidelog._compiled", [str(package)]) is None
    assert finder.find_spec("someone.adder", [str(package)]) is None
    assert finder.find_spec("tidelog") is None


def test_who_insists_is_refused_what_would_be_compiled_and_nothing_else(package: Path) -> None:
    (package / "sources.py").write_text("")
    finder = RefusedModules("not here")

    with pytest.raises(KernelUnavailableError, match="not here"):
        finder.find_spec("tidelog.adder", [str(package)])
    for other in ("tidelog.sources", "someone.adder"):
        finder.find_spec(other, [str(package)])
    finder.find_spec("tidelog")


@pytest.mark.skipif(choice.twin == "python", reason="nothing is compiled here")
def test_modules_with_the_same_last_name_are_modules_of_their_own() -> None:
    names = sorted(compiled_modules(PACKAGE))
    modules = [importlib.import_module(name) for name in names]

    assert [module.__name__ for module in modules] == names
    assert {module.__file__ for module in modules} == {f"{PACKAGE}/{EXTENSION}"}
    for module in modules:
        defined = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ in names]
        assert all(getattr(sys.modules[each.__module__], each.__name__) is each for each in defined)
    assert len({name.rpartition(".")[2] for name in names}) < len(names)


@pytest.mark.skipif(choice.twin == "python", reason="nothing is compiled here")
def test_the_extension_creates_no_module_that_it_does_not_hold() -> None:
    from tidelog import _compiled

    with pytest.raises(ImportError, match=r"tidelog\.nothing is not among the compiled modules"):
        _compiled.create(ModuleSpec("tidelog.nothing", None))
    with pytest.raises(AttributeError):
        _compiled.create(None)  # type: ignore[arg-type]


def test_this_process_runs_what_it_was_told_to() -> None:
    """A build that failed must not make the suite pass over the sources alone."""
    if os.environ.get("TIDELOG_KERNELS") == "python" or not can_compile():
        assert choice.twin == "python"
    else:
        assert (choice.twin, choice.reason) == ("compiled", "")


def test_a_compiled_class_has_the_name_of_its_source() -> None:
    assert SharedTimers.__module__ == "tidelog.model.shared_timers"
    is_compiled = sys.modules[SharedTimers.__module__].__file__.endswith(EXTENSION)  # type: ignore[union-attr]
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
