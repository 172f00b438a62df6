"""The console's built files are what its source builds to, byte by byte, with what the lock file pins."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.repo.test_links import ROOT
from tests.support.apache_kafka import require

pytestmark = pytest.mark.compat

BUILT = ROOT / "src" / "tidelog" / "console" / "static"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with its packages, of the shape of the repository."""
    require("node", "nodejs")
    root = tmp_path_factory.mktemp("console-build")
    copied = root / "console"
    shutil.copytree(ROOT / "console", copied, ignore=shutil.ignore_patterns("node_modules"))
    (root / "src" / "tidelog" / "console" / "static").mkdir(parents=True)
    npm(copied, "ci", "--no-audit", "--no-fund")
    return copied


def npm(place: Path, *arguments: str) -> str:
    program = require("npm", "npm")
    ran = subprocess.run([program, *arguments], cwd=place, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_build_from_the_source_is_byte_for_byte_what_is_committed(place: Path) -> None:
    npm(place, "run", "build")
    fresh = {
        path.name: path.read_bytes() for path in (place.parent / "src" / "tidelog" / "console" / "static").iterdir()
    }
    committed = {path.name: path.read_bytes() for path in BUILT.iterdir()}
    assert sorted(fresh) == sorted(committed)
    assert [name for name, content in fresh.items() if committed[name] != content] == []


def test_the_source_is_well_typed(place: Path) -> None:
    assert "0 errors and 0 warnings" in npm(place, "run", "check")


def test_the_timeline_of_the_x_ray_passes_its_tests(place: Path) -> None:
    # How Node.js says it depends on its release; npm fails where a test did.
    assert re.search(r"\bpass [1-9]\d*\n.*\bfail 0\n", npm(place, "test"), re.DOTALL)
