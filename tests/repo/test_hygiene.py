"""Rules of the house that no linter knows."""

from __future__ import annotations

import re
import tomllib

import tidelog
from tests.repo.test_links import ROOT, tracked

# A registry is named by the package client's own settings, never by a file of ours.
HOSTS = re.compile(r"(pypi\.org|pythonhosted\.org|repo1?\.maven|crates\.io|registry\.npmjs|proxy\.golang|deb\.debian)")
TEXT = ("*.py", "*.md", "*.toml", "*.txt", "*.java", "*.xml", "Makefile", ".ci/run", "*.cfg", "*.yaml", "*.yml")


def test_no_file_names_a_registrys_host() -> None:
    guilty = [
        str(path.relative_to(ROOT))
        for path in tracked(*TEXT)
        if path.name != "test_hygiene.py" and HOSTS.search(path.read_text())
    ]
    assert guilty == []


def test_the_version_is_said_once_more_only_in_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == tidelog.__version__


def test_what_needs_more_than_pypi_is_marked_so() -> None:
    modules = tracked("tests/compat/test_*.py")
    assert modules
    assert [path.name for path in modules if "pytest.mark.compat" not in path.read_text()] == []


def test_every_package_is_typed_and_documented() -> None:
    packages = sorted(path.parent for path in (ROOT / "src" / "tidelog").rglob("__init__.py"))
    silent = [
        str(path.relative_to(ROOT))
        for path in packages
        if not (path / "__init__.py").read_text().lstrip().startswith('"""')
    ]
    assert silent == []
    assert (ROOT / "src" / "tidelog" / "py.typed").exists()


def test_constraints_pin_every_line() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.\-]+==[^\s;]+( ; .*)?", line)] == []
