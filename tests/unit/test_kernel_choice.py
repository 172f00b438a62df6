from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog import kernel_choice
from tidelog.kernel_choice import KernelUnavailableError, load

SOURCE = "TWIN = 'python'\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with one kernel. What stands for the extension is a module too: only names and stamps matter here."""
    folder = tmp_path / "made_up" / "kernels"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("")
    (folder / "adder.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("TIDELOG_KERNELS", raising=False)
    monkeypatch.setattr(kernel_choice, "loaded", {})
    importlib.invalidate_caches()
    yield folder
    for name in [name for name in sys.modules if name.startswith("made_up")]:
        del sys.modules[name]


def compile_kernel(folder: Path, source: str = SOURCE) -> None:
    (folder / "_adder.py").write_text("TWIN = 'compiled'\n")
    (folder / "_adder.source").write_text(hashlib.sha256(source.encode()).hexdigest() + "\n")
    importlib.invalidate_caches()


def test_what_kernels_share_is_a_part_of_their_source(package: Path) -> None:
    compile_kernel(package)
    (package / "shared.pxd").write_text("cdef inline int one(): return 1")

    assert load("made_up.kernels", "adder").TWIN == "python"
    assert "was edited" in kernel_choice.loaded["adder"][1]


def test_the_binary_serves_where_there_is_one(package: Path) -> None:
    compile_kernel(package)

    assert load("made_up.kernels", "adder").TWIN == "compiled"
    assert kernel_choice.loaded == {"adder": ("compiled", "")}


def test_without_a_binary_the_source_serves_and_says_why(package: Path) -> None:
    assert load("made_up.kernels", "adder").TWIN == "python"
    twin, why = kernel_choice.loaded["adder"]
    assert twin == "python"
    assert "was not compiled" in why


def test_a_stale_binary_never_shadows_an_edit(package: Path) -> None:
    compile_kernel(package, source="TWIN = 'an older source'\n")

    assert load("made_up.kernels", "adder").TWIN == "python"
    assert "edited after it was compiled" in kernel_choice.loaded["adder"][1]


def test_a_binary_of_unknown_origin_is_not_used(package: Path) -> None:
    compile_kernel(package)
    (package / "_adder.source").unlink()

    assert load("made_up.kernels", "adder").TWIN == "python"


def test_the_environment_overrules(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_kernel(package)
    monkeypatch.setenv("TIDELOG_KERNELS", "python")

    assert load("made_up.kernels", "adder").TWIN == "python"


def test_insisting_on_a_missing_binary_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_KERNELS", "compiled")
    with pytest.raises(KernelUnavailableError, match="was not compiled"):
        load("made_up.kernels", "adder")


def test_another_word_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_KERNELS", "fast")
    with pytest.raises(KernelUnavailableError, match="can be 'python' or 'compiled'"):
        load("made_up.kernels", "adder")
