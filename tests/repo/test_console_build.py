"""The console's built files are of the source beside them, and keep to their limits. tests/compat builds anew and compares."""

from __future__ import annotations

import gzip
import hashlib
import json
import re

from tests.repo.test_links import ROOT, tracked

SOURCE = ROOT / "console"
BUILT = ROOT / "src" / "tidelog" / "console" / "static"
# What console/build/source-hash.mjs takes.
PARTS = ("index.html", "package.json", "package-lock.json", "vite.config.ts", "tsconfig.json", "public", "src")
WIRE_BYTES_MAX = 200_000
HOST = re.compile(r"[a-z]+://[a-z0-9.-]+", re.IGNORECASE)
# Names of XML that nobody loads, and Svelte's page about an error, which the text of an error names.
NAMES = ("http://www.w3.org/", "https://svelte.dev/e/")


def source_hash() -> str:
    names = sorted(
        path.relative_to(SOURCE).as_posix()
        for part in PARTS
        for path in ([SOURCE / part] if (SOURCE / part).is_file() else (SOURCE / part).rglob("*"))
        if path.is_file()
    )
    summed = hashlib.sha256()
    for name in names:
        content = (SOURCE / name).read_bytes()
        summed.update(f"{name}\0{len(content)}\0".encode())
        summed.update(content)
    return summed.hexdigest()


def test_the_built_files_are_of_this_source() -> None:
    said = (BUILT / "SOURCE_HASH").read_text().strip()
    assert said == source_hash(), "console/ has changed: run `npm ci && npm run build` there and commit what it builds"


def test_the_built_files_are_within_their_budget_and_have_no_source_map() -> None:
    files = sorted(BUILT.iterdir())
    assert {file.name for file in files} == {"SOURCE_HASH", "console.css", "console.js", "favicon.svg", "index.html"}
    assert sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) < WIRE_BYTES_MAX
    assert [file.name for file in files if "sourceMappingURL" in file.read_text()] == []


def test_the_built_files_name_no_host_but_their_own() -> None:
    named = {found.group() for file in BUILT.iterdir() for found in HOST.finditer(file.read_text())}
    assert {name for name in named if not any(known.startswith(name) for known in NAMES)} == set()


def test_the_lock_file_pins_everything_and_names_no_host() -> None:
    text = (SOURCE / "package-lock.json").read_text()
    assert HOST.findall(text) == []
    packages = json.loads(text)["packages"]
    assert len(packages) > 10
    assert [name for name, entry in packages.items() if name and not entry.get("integrity")] == []
    declared = json.loads((SOURCE / "package.json").read_text())["devDependencies"]
    assert [version for version in declared.values() if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []


def test_no_screen_renders_a_value_as_html() -> None:
    screens = tracked("console/src/*.svelte", "console/src/**/*.svelte")
    assert len(screens) > 20
    guilty = [
        path.name for path in screens if "{@html" in path.read_text() or re.search(r'\sstyle="', path.read_text())
    ]
    assert guilty == []
