"""The pages of the documentation as a person reads them: text, and fenced blocks that can be typed.

The language of a fence says what a person does with it:

    console     commands behind `$ `, each followed by what it prints; `> ` carries a command on in the next line
    sh          commands alone, typed one after the other
    python      a program
    output      what the program or the commands right above print

Everything else (a file's content, a picture, a fragment) has a mark above its fence that readers do not see:

    <!-- test: not run, WHY -->             nobody can type this as it is
    <!-- test: file NAME -->                the content of a file, that the text before it names
    <!-- test: a terminal of its own -->    a command that stays: it runs until the page ends
    <!-- test: exit code N -->              the last command of the block ends with N

and a page may have, anywhere, marks of its own:

    <!-- test page: one Python session -->  its programs go on from each other
    <!-- test page: in a clone -->          it is typed in the root of a clone
    <!-- test page: make compat, WHY -->    it is typed by `make compat`, and not by `make test`

`mistakes` finds what fits none of this, so that no block of a page escapes from being typed.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TYPED = frozenset({"console", "sh", "python"})
OUTPUT = "output"
# What the content of a file, a picture or a fragment may be.
CONTENT = frozenset({"text", "properties", "json", "toml", "ini", "yaml", "sql", "make"})

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+|~~~+)(?P<language>.*)$")
_MARK = re.compile(r"^\s*<!-- test: (?P<text>.*?) -->\s*$")
_PAGE_MARK = re.compile(r"^\s*<!-- test page: (?P<text>.*?) -->\s*$")
_LIST_ITEM = re.compile(r"\s*([-*+]|\d+\.)\s")
_PAGE_MARKS = re.compile(r"one Python session|in a clone|make compat, \S.*")


@dataclass(frozen=True)
class Command:
    """What is typed behind one `$ `, and what is shown under it."""

    line: int
    typed: str
    shown: tuple[str, ...]


@dataclass
class Block:
    page: str
    line: int
    language: str
    text: str
    mark: str = ""
    # The words of the page before it, by which a reader knows what it is.
    before: str = ""
    # What an `output` block right below shows.
    output: tuple[str, ...] | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.language in TYPED and not self.mark.startswith(("not run,", "file "))

    @property
    def file(self) -> str | None:
        return self.mark.removeprefix("file ") if self.mark.startswith("file ") else None

    @property
    def stays(self) -> bool:
        return self.mark == "a terminal of its own"

    @property
    def exit_code(self) -> int:
        return int(self.mark.removeprefix("exit code ")) if self.mark.startswith("exit code ") else 0

    def commands(self) -> list[Command]:
        """Those of a `console` block."""
        commands: list[Command] = []
        for number, line in enumerate(self.text.splitlines(), self.line + 1):
            if line.startswith("$ "):
                commands.append(Command(number, line[2:], ()))
            elif commands and line.startswith("> ") and not commands[-1].shown:
                last = commands[-1]
                commands[-1] = Command(last.line, f"{last.typed}\n{line[2:]}", ())
            elif commands:
                last = commands[-1]
                commands[-1] = Command(last.line, last.typed, (*last.shown, line.rstrip()))
        # An empty line between two commands is for the eye.
        return [Command(each.line, each.typed, _without_empty_end(each.shown)) for each in commands]


@dataclass
class Page:
    name: str
    text: str
    blocks: list[Block] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)

    @property
    def is_typed(self) -> bool:
        return any(block.is_run for block in self.blocks)

    @property
    def is_one_session(self) -> bool:
        return "one Python session" in self.marks

    @property
    def is_in_a_clone(self) -> bool:
        return "in a clone" in self.marks

    @property
    def is_for_compat(self) -> bool:
        return any(mark.startswith("make compat,") for mark in self.marks)

    @cached_property
    def programs(self) -> list[str]:
        return [block.text for block in self.blocks if block.language == "python" and block.is_run]


def all_pages() -> list[Page]:
    """Every page of the repository that is kept in it, or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [parse(name, (ROOT / name).read_text()) for name in listed.stdout.split() if (ROOT / name).exists()]


def page_of(name: str) -> Page:
    return parse(name, (ROOT / name).read_text())


def parse(name: str, text: str) -> Page:
    page = Page(name, text)
    lines = iter(enumerate(text.splitlines(), 1))
    mark, mark_line, before = "", 0, ""
    # Whether only empty lines stand between the last block and here.
    right_below: Block | None = None
    for number, line in lines:
        if found := _FENCE.match(line):
            if number > 1 and found["ticks"] in found["language"]:
                continue  # code within a line
            body = _body(lines, found["ticks"], len(found["indent"]))
            if body is None:
                page.mistakes.append(f"{name}:{number}: this fence is never closed")
                break
            block = Block(name, number, found["language"].strip(), body, mark, before)
            if block.language == OUTPUT and not mark:
                if right_below is None or right_below.output is not None or right_below.language == "console":
                    page.mistakes.append(f"{block.place}: output belongs right below a program or commands")
                else:
                    right_below.output = tuple(each.rstrip() for each in body.splitlines())
                right_below = None
            else:
                page.blocks.append(block)
                right_below = block
            mark, before = "", ""
        elif found := _MARK.match(line):
            if mark:
                page.mistakes.append(f"{name}:{mark_line}: this mark has no block below it")
            mark, mark_line = found["text"], number
        elif found := _PAGE_MARK.match(line):
            page.marks.append(found["text"])
        elif line.strip():
            if mark:
                page.mistakes.append(f"{name}:{mark_line}: this mark has no block below it")
            if line.startswith(("    ", "\t")) and not _goes_on(before):
                page.mistakes.append(f"{name}:{number}: a block by indentation: put it into a fence, with its language")
            mark, right_below = "", None
            before = line if not before or before.endswith("\n\n") else f"{before}\n{line}"
        elif before and not before.endswith("\n\n"):
            before += "\n\n"
    if mark:
        page.mistakes.append(f"{name}:{mark_line}: this mark has no block below it")
    page.mistakes += [
        f"{name}: {each!r} is no mark of a page" for each in page.marks if not _PAGE_MARKS.fullmatch(each)
    ]
    page.mistakes += [mistake for block in page.blocks for mistake in _mistakes(block)]
    return page


def _body(lines: Iterator[tuple[int, str]], ticks: str, indent: int) -> str | None:
    found: list[str] = []
    for _, line in lines:
        if line.strip() == ticks:
            return textwrap.dedent("\n".join(found) + "\n") if indent else "".join(f"{each}\n" for each in found)
        found.append(line)
    return None


def _goes_on(before: str) -> bool:
    """Whether an indented line carries on a paragraph or an item of a list."""
    return bool(before) and (not before.endswith("\n\n") or _LIST_ITEM.match(before) is not None)


def _without_empty_end(lines: tuple[str, ...]) -> tuple[str, ...]:
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return lines[:end]


def _mistakes(block: Block) -> Iterator[str]:
    place, mark = block.place, block.mark
    if block.language not in TYPED | CONTENT | {OUTPUT}:
        yield f"{place}: {block.language or 'no language'!r}: known are {', '.join(sorted(TYPED | CONTENT))}"
    if mark.startswith("not run,"):
        if not mark.removeprefix("not run,").strip():
            yield f"{place}: say why it is not run"
    elif block.file is not None:
        if f"`{block.file}`" not in block.before:
            yield f"{place}: the text above does not say that this is `{block.file}`"
    elif mark and not block.stays and not re.fullmatch(r"exit code \d+", mark):
        yield f"{place}: {mark!r} is no mark"
    elif block.language in CONTENT:
        yield f"{place}: nobody can type this: mark it as `not run, WHY` or as `file NAME`"
    elif block.language == "console":
        if not block.text.startswith("$ "):
            yield f"{place}: a console begins with `$ `"
        if block.stays and len(block.commands()) != 1:
            yield f"{place}: one command has a terminal of its own"
    elif block.stays:
        yield f"{place}: only a console has a terminal of its own"
