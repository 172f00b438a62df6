"""The release workflow, as far as it can be judged without running it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from typing import Any

import yaml

from tests.repo.test_links import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"


def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    return found


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_it_is_a_workflow() -> None:
    judge = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]
    judged = subprocess.run(judge, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_only_what_was_built_and_tried_is_published_and_only_for_a_tag() -> None:
    publish = jobs()["publish"]
    assert set(publish["needs"]) == set(jobs()) - {"publish"}
    assert publish["if"] == "github.ref_type == 'tag'"


def test_no_job_but_the_publishing_one_gets_an_identity_and_none_a_secret() -> None:
    assert [name for name, job in jobs().items() if "permissions" in job] == ["publish"]
    assert jobs()["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in WORKFLOW.read_text()


def test_every_platform_is_built() -> None:
    platforms = {row["platform"] for row in jobs()["wheels"]["strategy"]["matrix"]["include"]}
    assert platforms == {"linux-x86_64", "linux-aarch64", "macos-arm64", "macos-x86_64"}


def test_every_python_that_is_promised_gets_wheels_that_are_tried() -> None:
    settings = project()["tool"]["cibuildwheel"]
    promised = {
        words.removeprefix("Programming Language :: Python :: ").replace(".", "")
        for words in project()["project"]["classifiers"]
        if words.startswith("Programming Language :: Python :: 3.")
    }
    assert promised
    assert promised <= {name.removeprefix("cp").removesuffix("-*") for name in settings["build"].split()}
    assert "tools/try_installation.py" in settings["test-command"]
    assert "test-skip" not in settings
