"""The plain twin of every compiled module runs on Python and the run-time dependencies: Cython is for building the other one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repo.test_links import ROOT
from tidelog import plain_cython

SOURCE = ROOT / "src" / "tidelog"
KERNELS = sorted(path for path in SOURCE.rglob("*.py") if path.with_suffix(".pxd").exists())


def cython_names(tree: ast.AST) -> Iterator[str]:
    """Every `x` of a `cython.x`, in annotations too: an edit may make a plain twin evaluate what it did not before."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cython":
            yield node.attr


def run_time_imports(tree: ast.AST) -> Iterator[str]:
    """The modules that plain Python imports: not those for type checkers and Cython, nor those of the compiled twin."""
    if isinstance(tree, ast.If) and ast.unparse(tree.test) in {"TYPE_CHECKING", "cython.compiled"}:
        branches: list[ast.stmt] = tree.orelse
    else:
        branches = list(ast.iter_child_nodes(tree))  # type: ignore[arg-type]
    for node in branches:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."
        yield from run_time_imports(node)


def test_there_are_kernels() -> None:
    assert len(KERNELS) > 10


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_all_that_a_kernel_names_of_cython_is_there_without_cython(path: Path) -> None:
    missing = {name for name in cython_names(ast.parse(path.read_text())) if not hasattr(plain_cython, name)}
    assert missing == set()


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_plain_twin_does_not_import_cython(path: Path) -> None:
    imported = {name.partition(".")[0] for name in run_time_imports(ast.parse(path.read_text()))}
    assert imported.isdisjoint({"cython", "Cython"})


def test_an_import_of_cython_would_be_seen() -> None:
    as_it_was = "try:\n    import cython\nexcept ImportError:\n    from plain import twin as cython\n"
    as_it_is = "if TYPE_CHECKING:\n    import cython\nelse:\n    from plain import twin as cython\n"
    assert "cython" in set(run_time_imports(ast.parse(as_it_was)))
    assert set(run_time_imports(ast.parse(as_it_is))) == {"plain"}
