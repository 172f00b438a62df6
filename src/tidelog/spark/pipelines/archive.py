"""What the workers of a Spark cluster need to read and write topics: Tidelog and what it depends on, in one archive.

Spark unpacks it beside each worker (`spark.archives`), where Python finds it by PYTHONPATH: compiled modules cannot be imported
out of an archive. Python itself and PySpark are what a worker has already; its Python has to be of the version that packed.
"""

from __future__ import annotations

import importlib.metadata
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.spark.pipelines.errors import PackageError

_PROJECT = "tidelog"
_PACKAGES = ("tidelog", "pyspark_tidelog")
# Extras whose packages go along: the first must be there, the others if they are.
_NEEDED_EXTRA = "arrow"
_OTHER_EXTRAS = ("avro", "protobuf")
# Every Spark has its own.
_SPARKS_OWN = frozenset({"pyspark", "py4j"})
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
# What is for compilers and for tests is most of what some packages have.
_LEFT_OUT_DIRECTORIES = frozenset({"__pycache__", "tests", "include", "src"})
_LEFT_OUT_ENDS = (".pyc", ".pyi", ".pyx", ".pxd", ".pxi", ".h", ".c", ".cpp", ".cc", ".a")


@dataclass(frozen=True, slots=True)
class Archive:
    path: Path
    distributions: Sequence[str]
    """As in msgspec 0.22.0."""
    bytes: int


def build_archive(path: Path, more: Sequence[str] = ()) -> Archive:
    """Pack Tidelog, more distributions of this environment and what all of them need. PackageError for one that is missing."""
    wanted = [*_requirements(_PROJECT, {_NEEDED_EXTRA}), *more]
    optional = _requirements(_PROJECT, set(_OTHER_EXTRAS))
    found = _closure(wanted, optional)
    made = path.with_name(f".{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as packed:
            for name, file in (*_own_files(), *_files(found.values())):
                packed.write(file, name)
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    listed = sorted(f"{name} {each.version}" for name, each in found.items())
    return Archive(path, [f"{_PROJECT} {_version()}", *listed], path.stat().st_size)


def _closure(wanted: Iterable[str], optional: Iterable[str]) -> dict[str, importlib.metadata.Distribution]:
    found: dict[str, importlib.metadata.Distribution] = {}
    left = [*((name, True) for name in wanted), *((name, False) for name in optional)]
    while left:
        name, is_needed = left.pop()
        canonical = _canonical(name)
        if canonical in found or canonical in _SPARKS_OWN or canonical == _PROJECT:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if is_needed:
                raise PackageError(f"{name} is not installed here, and is to be packed: pip install {name}") from None
            continue
        found[canonical] = distribution
        # Markers of platforms and versions are not read: what is installed here was asked for, what is not was not.
        left += [(each, False) for each in _requirements(name, set())]
    return found


def _requirements(name: str, extras: set[str]) -> list[str]:
    """Names of what a distribution needs, always or for these extras; an extra of its own among them is followed."""
    names = []
    for text in importlib.metadata.requires(name) or ():
        requirement, _, marker = text.partition(";")
        needed_for = _EXTRA.search(marker)
        if needed_for is not None and needed_for[1] not in extras:
            continue
        parsed = _REQUIREMENT.match(requirement.strip())
        if parsed is not None:
            names.append(parsed[0])
    return names


def _own_files() -> Iterator[tuple[str, Path]]:
    """Tidelog's own, also where it is installed as a link to its source."""
    for package in _PACKAGES:
        module = __import__(package)
        (root,) = (Path(each) for each in module.__path__)
        for file in sorted(root.rglob("*")):
            name = f"{package}/{file.relative_to(root).as_posix()}"
            if file.is_file() and _is_wanted(name):
                yield name, file


def _files(distributions: Iterable[importlib.metadata.Distribution]) -> Iterator[tuple[str, Path]]:
    for distribution in distributions:
        listed = distribution.files
        if listed is None:
            raise PackageError(f"{distribution.name} does not say which files it has: install it with pip")
        for each in listed:
            file = Path(str(distribution.locate_file(each)))
            # Commands lie outside of where modules do.
            if ".." not in each.parts and not each.is_absolute() and file.is_file() and _is_wanted(each.as_posix()):
                yield each.as_posix(), file


def _is_wanted(name: str) -> bool:
    parts = name.split("/")
    # A directory of that name right at the top is a package.
    return not name.endswith(_LEFT_OUT_ENDS) and not _LEFT_OUT_DIRECTORIES.intersection(parts[1:-1])


def _version() -> str:
    from tidelog import __version__  # noqa: PLC0415

    return __version__


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
