"""Every link in the documentation leads somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


DOCUMENTS = tracked("*.md")


def anchors(document: Path) -> set[str]:
    text = FENCE.sub("", document.read_text())
    slugs = (re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text))
    return set(slugs)


def dead_links(document: Path, text: str) -> list[str]:
    dead = []
    for match in LINK.finditer(FENCE.sub("", text)):
        target = match.group(1) or match.group(2)
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            dead.append(target)
    return dead


def test_there_is_documentation() -> None:
    assert ROOT / "README.md" in DOCUMENTS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_link_is_dead(document: Path) -> None:
    assert dead_links(document, document.read_text()) == []


def test_a_dead_link_would_be_found(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text("# Title here\n")

    found = dead_links(document, "[x](gone.md) [y](a.md#title-here) [z](#title-here) [w](a.md#nowhere)")

    assert found == ["gone.md", "a.md#nowhere"]
