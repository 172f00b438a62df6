"""Writes the tables of options in docs/clients.md from the declarations of the clients.

    .venv/bin/python tools/client_options.py

A test of the repository fails while the document is old.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.client.admin.options import AdminOptions
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.options import ClientOptions, describe_options
from tidelog.client.producer.options import ProducerOptions
from tidelog.client.security_options import SecurityOptions

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "clients.md"
BEGIN = "<!-- options: written by tools/client_options.py -->\n"
END = "<!-- /options -->"

# Defaults that are objects, as a person would write them.
WRITTEN: dict[str, str] = {
    "bootstrap_servers": "required",
    "acks": "`'all'`",
    "enable_idempotence": "`True`, see there",
    "partition_assignment_strategy": "`['range', 'cooperative-sticky']`",
    "auto_offset_reset": "`'latest'`",
}


def render(document: str) -> str:
    """The document with the tables as they should be now."""
    head, _, rest = document.partition(BEGIN)
    _, _, tail = rest.partition(END)
    common = describe_options(ClientOptions)
    security = describe_options(SecurityOptions)
    shared = {name: each for name, each in common.items() if name not in security}
    tables = [_table("All clients", shared), _table("All clients: TLS and SASL", security)]
    for title, kind in (("Producer", ProducerOptions), ("Consumer", ConsumerOptions), ("Admin", AdminOptions)):
        own = {name: each for name, each in describe_options(kind).items() if name not in common}
        tables.append(_table(title, own))
    return f"{head}{BEGIN}{''.join(tables)}\n{END}{tail}"


def _table(title: str, options: dict[str, tuple[object, str]]) -> str:
    rows = "".join(
        f"| `{name}` | {WRITTEN.get(name, f'`{default!r}`')} | {doc} |\n" for name, (default, doc) in options.items()
    )
    return f"\n### {title}\n\n| option | default | |\n|---|---|---|\n{rows}"


if __name__ == "__main__":
    DOCUMENT.write_text(render(DOCUMENT.read_text()))
