"""The table of instruction counts, and what is said where they cannot be taken."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.instructions.__main__ import table
from benchmarks.instructions.counted_node import CountedNode, CountingError, check_valgrind
from benchmarks.instructions.operations import OPERATIONS


def test_a_table_has_the_ratio_to_what_was_counted_before() -> None:
    lines = table(["produce", "fetch"], {"produce": 500.0, "fetch": 90.0}, {"produce": 1_000.0, "fetch": 60.0})

    assert [line.split()[-3:] for line in lines.splitlines()[1:]] == [["500", "1,000", "0.500"], ["90", "60", "1.500"]]


def test_a_table_without_another_checkout_has_counts_alone() -> None:
    assert table(["produce"], {"produce": 1_500.0}, None).splitlines()[1].split() == ["produce", "1,500"]


def test_operations_have_names_of_their_own() -> None:
    assert len({each.name for each in OPERATIONS.values()}) == len(OPERATIONS)


def test_it_is_said_plainly_that_valgrind_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)

    with pytest.raises(CountingError, match="valgrind is not installed"):
        check_valgrind()


def test_a_checkout_without_an_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CountingError, match=r"has no \.venv"), CountedNode(tmp_path, tmp_path / "node"):
        pass
