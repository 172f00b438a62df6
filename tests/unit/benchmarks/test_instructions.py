"""The table of instruction counts, and what is said where they cannot be taken."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.instructions.__main__ import OPERATIONS, table, with_those_without
from benchmarks.instructions.counted_node import CountedNode, CountingError, check_valgrind


def test_a_table_has_the_ratio_to_what_was_counted_before() -> None:
    lines = table(["produce", "fetch"], {"produce": 500.0, "fetch": 90.0}, {"produce": 1_000.0, "fetch": 60.0})

    assert [line.split()[-3:] for line in lines.splitlines()[1:]] == [["500", "1,000", "0.500"], ["90", "60", "1.500"]]


def test_a_table_without_another_checkout_has_counts_alone() -> None:
    assert table(["produce"], {"produce": 1_500.0}, None).splitlines()[1].split() == ["produce", "1,500"]


def test_a_table_has_the_ratio_to_the_same_without() -> None:
    lines = table(["produce", "produce-acls"], {"produce": 1_000.0, "produce-acls": 1_100.0}, None).splitlines()

    assert [line.split()[-1] for line in lines[1:]] == ["1,000", "1.100"]


def test_what_the_other_checkout_does_not_have_is_left_open() -> None:
    ours = {"produce": 1_000.0, "produce-acls": 1_100.0}

    lines = table(["produce", "produce-acls"], ours, {"produce": 500.0}).splitlines()

    assert [line.split()[-2:] for line in lines[1:]] == [["500", "2.000"], ["-", "-"]]


def test_a_row_brings_the_one_it_is_held_against() -> None:
    assert with_those_without(["fetch-acls", "produce-quotas", "produce"]) == [
        "fetch",
        "fetch-acls",
        "produce",
        "produce-quotas",
    ]


def test_operations_have_names_of_their_own() -> None:
    assert len({each.name for each in OPERATIONS.values()}) == len(OPERATIONS)


def test_it_is_said_plainly_that_valgrind_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)

    with pytest.raises(CountingError, match="valgrind is not installed"):
        check_valgrind()


def test_a_checkout_without_an_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CountingError, match=r"has no \.venv"), CountedNode(tmp_path, tmp_path / "node"):
        pass
