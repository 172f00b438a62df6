"""What people who join the project meet first: workflows, forms and the targets that CONTRIBUTING names."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.repo.test_links import ROOT

GITHUB = ROOT / ".github"
JUDGED = {
    **dict.fromkeys(sorted((GITHUB / "workflows").glob("*.yml")), "vendor.github-workflows"),
    **{
        path: "vendor.github-issue-config" if path.name == "config.yml" else "vendor.github-issue-forms"
        for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
    },
}


@pytest.mark.parametrize("path", JUDGED, ids=lambda path: path.name)
def test_what_the_forge_reads_is_well_formed(path: Path) -> None:
    judge = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", JUDGED[path], str(path)]
    judged = subprocess.run(judge, capture_output=True, text=True, check=False)

    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_every_python_that_is_promised_is_tested() -> None:
    workflow = yaml.safe_load((GITHUB / "workflows" / "test.yml").read_text())
    tested = set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"])
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    promised = {each.rpartition(" ")[2] for each in classifiers if re.search(r":: 3\.\d+$", each)}

    assert promised
    assert promised <= tested


def test_every_target_that_contributors_are_told_of_is_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    told = set(re.findall(r"make ([a-z]+)", (ROOT / "CONTRIBUTING.md").read_text()))

    assert told
    assert told <= targets


def test_hooks_fetch_nothing() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]

    assert [each["repo"] for each in hooks] == ["local"]
    for hook in hooks[0]["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")
