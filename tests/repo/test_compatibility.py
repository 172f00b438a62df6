"""The compatibility document: of a commit that it names first, and without a failure that nobody has explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repo.test_links import ROOT
from tools import compatibility_report
from tools.compatibility_report import KnownFailure, RefusedError, Run, read_known, read_results, render

RUN = Run("0123456789ab", is_clean=True, date="2026-11-18", facts={"Tidelog": "0.1.0"})
TEST = "tests.compat.test_kcat::test_kcat_lists_the_cluster"
KNOWN = [KnownFailure(RUN.commit, TEST, "no route", "the network was down")]
PASSED = '<testcase classname="tests.compat.test_kcat" name="test_kcat_reads[{}]" />'
FAILED = (
    '<testcase classname="tests.compat.test_kcat" name="test_kcat_lists_the_cluster">'
    '<properties><property name="librdkafka" value="2.0.2" /></properties><failure message="{}">{}</failure></testcase>'
)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results.xml"


def write(results: Path, *cases: str) -> None:
    results.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")


def test_the_first_line_names_commit_and_date(results: Path) -> None:
    write(results, PASSED.format("a"), PASSED.format("b"))

    document = render(read_results(results), RUN, [])

    assert document.splitlines()[0] == "# Compatibility of commit 0123456789ab, as of 2026-11-18"
    assert "| Tests | 2 passed |" in document
    assert "| kcat reads | 2 passed |  |" in document


@pytest.mark.parametrize(("message", "text"), [("no route to host", ""), ("it failed", "a\nno route to host\n")])
def test_a_failure_is_shown_with_its_reason(results: Path, message: str, text: str) -> None:
    write(results, FAILED.format(message, text))

    document = render(read_results(results), RUN, KNOWN)

    assert "| kcat lists the cluster | 1 failed | librdkafka: 2.0.2; the network was down |" in document


@pytest.mark.parametrize("message", ["another failure", ""])
def test_a_failure_that_nobody_has_explained_is_not_published(results: Path, message: str) -> None:
    write(results, PASSED.format("a"), FAILED.format(message, ""))

    with pytest.raises(RefusedError, match=TEST):
        render(read_results(results), RUN, KNOWN)


def test_one_reason_does_not_excuse_another_failure_of_the_test(results: Path) -> None:
    write(results, FAILED.format("no route to host", ""), FAILED.format("wrong answer", ""))

    with pytest.raises(RefusedError, match=r"1 failed.*\n.*wrong answer"):
        render(read_results(results), RUN, KNOWN)


def test_a_reason_of_another_run_is_none(results: Path) -> None:
    write(results, FAILED.format("no route to host", ""))
    later = Run("ba9876543210", is_clean=True, date="2026-11-19", facts={})

    with pytest.raises(RefusedError, match=TEST):
        render(read_results(results), later, KNOWN)


def test_a_tree_that_is_no_commit_is_not_published(results: Path) -> None:
    write(results, PASSED.format("a"))

    with pytest.raises(RefusedError, match="in no commit"):
        render(read_results(results), Run("0123456789ab", is_clean=False, date="2026-11-18", facts={}), [])


def test_a_run_without_results_is_not_published(results: Path) -> None:
    write(results)

    with pytest.raises(RefusedError, match="no results"):
        render(read_results(results), RUN, [])


def test_the_document_itself_is_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility_report, "REPOSITORY", tmp_path)
    monkeypatch.setattr(compatibility_report, "DOCUMENT", tmp_path / "document.md")
    compatibility_report.git("init", "--quiet")

    (tmp_path / "document.md").write_text("of an earlier run")
    alone = compatibility_report.is_clean()
    (tmp_path / "source.py").write_text("changed")

    assert alone
    assert not compatibility_report.is_clean()


def test_nothing_is_written_where_no_run_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility_report, "RUN", tmp_path / "run.json")
    monkeypatch.setattr(compatibility_report, "DOCUMENT", tmp_path / "document.md")

    with pytest.raises(RefusedError, match="no run"):
        compatibility_report.publish()

    assert not (tmp_path / "document.md").exists()


def test_a_reason_says_something(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text('[[failure]]\ncommit = "c"\ntest = "a"\nmessage = "b"\nreason = " "\n')

    with pytest.raises(RefusedError, match="both a message and a reason"):
        read_known(path)


def test_the_document_says_of_what_it_is_and_shows_no_bare_failure() -> None:
    first, *lines = (ROOT / "docs" / "compatibility.md").read_text().splitlines()
    known = read_known(compatibility_report.KNOWN_FAILURES)
    reasons = {each.reason for each in known if each.commit in first}
    failed = [
        line for line in lines if re.search(r"^\|.*\|[^|]*\d failed[^|]*\|.*\|$", line) and "| Tests |" not in line
    ]

    assert re.fullmatch(r"# Compatibility of commit [0-9a-f]{12}, as of \d{4}-\d\d-\d\d", first)
    assert [line for line in failed if not any(reason in line for reason in reasons)] == []


def test_every_known_failure_is_of_a_test_that_exists() -> None:
    for each in read_known(compatibility_report.KNOWN_FAILURES):
        module, _, name = each.test.partition("::")
        assert f"def {name}(" in (ROOT / f"{module.replace('.', '/')}.py").read_text()
