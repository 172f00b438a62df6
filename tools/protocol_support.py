"""Writes docs/protocol-support.md from what the handlers declare.

    .venv/bin/python tools/protocol_support.py

Nothing in the document is typed by hand: an API is in it because `tidelog.wire` has its messages, and is answered because
there is a handler for it. What a handler's file says first is what the document says of it. A test of the repository
fails while the document is old.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from tidelog.broker.handlers.api_versions import announced_versions
from tidelog.broker.node.node import load_handlers
from tidelog.broker.requests.handling import HANDLERS, Handler
from tidelog.wire.apis import Api, all_apis
from tidelog.wire.versions import VersionRange

REPOSITORY = Path(__file__).resolve().parent.parent
DOCUMENT = REPOSITORY / "docs" / "protocol-support.md"
HEAD = """# Protocol support

Written by `tools/protocol_support.py` from the handlers. Do not edit: run it again.

{answered} of the {all} APIs of Apache Kafka 4.3.1 are answered. Messages of all of them are encoded and decoded; an API is
announced once it does what it says. "Kafka" is what Apache Kafka 4.3.1 announces, without versions that it calls unstable.

| key | API | versions | Kafka | listeners | |
|---|---|---|---|---|---|
"""


def render() -> str:
    """The document, as it should be now."""
    load_handlers()
    apis = all_apis()
    head = HEAD.format(answered=len(HANDLERS), all=len(apis))
    return head + "".join(_row(each, HANDLERS.get(each.key)) for each in apis)


def _row(api: Api, handler: Handler | None) -> str:
    kafkas = str(api.announced_versions)
    if handler is None:
        return f"| {int(api.key)} | {api.name} | not announced | {kafkas} | {' '.join(api.listener_kinds)} | |\n"
    announced = announced_versions(handler)
    versions = VersionRange(announced.min_version, announced.max_version)
    listeners = " ".join(handler.listener_kinds)
    return f"| {int(api.key)} | {api.name} | {versions} | {kafkas} | {listeners} | {_purpose(handler)} |\n"


def _purpose(handler: Handler) -> str:
    """What the handler says of itself, or the first sentence of its file without the name and versions in front of it."""
    if handler.purpose:
        return handler.purpose.replace("|", "\\|")
    module = inspect.getmodule(handler.answer)
    first = (inspect.getdoc(module) or "").splitlines()[0]
    return first.partition(": ")[2].rstrip(".").replace("|", "\\|")


def main() -> None:
    DOCUMENT.write_text(render())
    print(f"wrote {DOCUMENT.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    main()
