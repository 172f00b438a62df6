"""The READMEs that map a package name each of its modules in the row of its folder, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repo.test_links import ROOT

MAPS = ("src/tidelog/broker", "src/tidelog/cli", "src/tidelog/console", "src/tidelog/model", "tests/support")
NAME = re.compile(r"`([a-z_0-9]+(?:/[a-z_0-9]+)*/?)`")
# Their files are named after what is in them: the APIs.
NOT_LISTED = {"handlers", "group_talk", "answer_scenarios"}


def rows_of(text: str) -> list[list[str]]:
    """What each row of the tables names."""
    return [NAME.findall(line) for line in text.splitlines() if line.startswith("| ")]


def mistakes(package: Path, text: str) -> list[str]:
    rows = rows_of(text)
    folders = [path.parent for path in sorted(package.glob("*/__init__.py"))]
    wrong = []
    for folder in [package, *folders]:
        named = {name for row in rows if folder == package or f"{folder.name}/" in row for name in row}
        if folder != package and f"{folder.name}/" not in named:
            wrong.append(f"{folder.name}/ is not named")
        elif folder.name not in NOT_LISTED:
            modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
            wrong += [f"{folder.name}/{module} is not named" for module in sorted(modules - named)]
    there = {path.stem for path in package.rglob("*.py")} | {f"{folder.name}/" for folder in folders}
    return wrong + [f"{name} is not there" for row in rows for name in row if not _is_there(package, name, there)]


def _is_there(package: Path, name: str, there: set[str]) -> bool:
    return name in there or (package / f"{name}.py").exists()


@pytest.mark.parametrize("package", MAPS)
def test_a_readme_maps_its_package(package: str) -> None:
    folder = ROOT / package
    assert mistakes(folder, (folder / "README.md").read_text()) == []


def test_a_module_that_came_or_went_is_noticed() -> None:
    folder = ROOT / "src/tidelog/broker"
    text = (folder / "README.md").read_text()

    without_a_name = text.replace("`fetch_sessions`", "sessions")
    assert mistakes(folder, without_a_name) == ["data/fetch_sessions is not named"]
    in_another_room = without_a_name.replace("`upkeep`", "`upkeep`, `fetch_sessions`")
    assert mistakes(folder, in_another_room) == ["data/fetch_sessions is not named"]
    assert mistakes(folder, text.replace("`fetch_sessions`", "`fetch_sessions`, `gone`")) == ["gone is not there"]
    assert "groups/ is not named" in mistakes(folder, text.replace("`groups/`", "groups"))
