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
from tidelog.client.share.options import ShareOptions

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
# The same name, and none that would do as a default.
REQUIRED = {"Share consumer": "group_id"}


def render(document: str) -> str:
    """The document with the tables as they should be now."""
    head, _, rest = document.partition(BEGIN)
    _, _, tail = rest.partition(END)
    common = describe_options(ClientOptions)
    security = describe_options(SecurityOptions)
    shared = {name: each for name, each in common.items() if name not in security}
    tables = [_table("All clients", shared), _table("All clients: TLS and SASL", security)]
    kinds: dict[str, type[ClientOptions]] = {
        "Producer": ProducerOptions,
        "Consumer": ConsumerOptions,
        "Share consumer": ShareOptions,
        "Admin": AdminOptions,
    }
    for title, kind in kinds.items():
        own = {name: each for name, each in describe_options(kind).items() if name not in common}
        tables.append(_table(title, own, required=REQUIRED.get(title, "")))
    return f"{head}{BEGIN}{''.join(tables)}\n{END}{tail}"


def _table(title: str, options: dict[str, tuple[object, str]], *, required: str = "") -> str:
    rows = "".join(
        f"| `{name}` | {'required' if name == required else WRITTEN.get(name, f'`{default!r}`')} | {doc} |\n"
        for name, (default, doc) in options.items()
    )
    return f"\n### {title}\n\n| option | default | |\n|---|---|---|\n{rows}"


if __name__ == "__main__":
    DOCUMENT.write_text(render(DOCUMENT.read_text()))
