"""Writes the tables of keys in docs/security.md from their declarations.

    .venv/bin/python tools/security_keys.py

A test of the repository fails while the document is old.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidelog.model.authorizer_config import AUTHORIZER_KEYS
from tidelog.model.broker_config import PER_LISTENER_KEYS
from tidelog.model.cluster_config import SECURITY_INTER_BROKER_PROTOCOL
from tidelog.model.config import ConfigKey, ConfigType, UpdateMode
from tidelog.model.listener_config import (
    CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    MAX_CONNECTIONS_PER_IP_OVERRIDES,
)
from tidelog.model.provider_config import PROVIDER_KEYS
from tidelog.model.quota_config import QUOTA_KEYS
from tidelog.model.sasl_config import SASL_KEYS
from tidelog.model.tls_config import STORE_NAMES, TLS_KEYS
from tidelog.model.token_config import TOKEN_KEYS
from tidelog.model.unused_config import unused_keys

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "security.md"
BEGIN = "<!-- keys: written by tools/security_keys.py -->\n"
END = "<!-- /keys -->"

# What keys that nothing acts on begin with where they are about security.
_ABOUT_SECURITY = ("ssl.", "sasl.", "security.", "principal.", "client.quota.")


def render(document: str) -> str:
    """The document with the tables as they should be now."""
    head, _, rest = document.partition(BEGIN)
    _, _, tail = rest.partition(END)
    connections = (
        CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
        MAX_CONNECTIONS,
        MAX_CONNECTIONS_PER_IP,
        MAX_CONNECTIONS_PER_IP_OVERRIDES,
    )
    tables = [
        _table("TLS", TLS_KEYS.values()),
        _table("SASL", (*SASL_KEYS.values(), SECURITY_INTER_BROKER_PROTOCOL)),
        _table("Delegation tokens", TOKEN_KEYS.values()),
        _table("ACLs", AUTHORIZER_KEYS.values()),
        _table("Quotas and connections", (*QUOTA_KEYS.values(), *connections)),
        _table("Secrets", PROVIDER_KEYS.values()),
        _table("Known, and without effect or refused", _unused()),
    ]
    return f"{head}{BEGIN}{''.join(tables)}\n{END}{tail}"


def _unused() -> Iterable[ConfigKey[Any]]:
    return (unused.key for name, unused in sorted(unused_keys().items()) if name.startswith(_ABOUT_SECURITY))


def _table(title: str, keys: Iterable[ConfigKey[Any]]) -> str:
    rows = "".join(f"| `{key.name}` | {_default(key)} | {_changes(key)} | {_cell(key.doc)} |\n" for key in keys)
    return f"\n### {title}\n\n| key | default | set | |\n|---|---|---|---|\n{rows}"


def _default(key: ConfigKey[Any]) -> str:
    if key.default is None or key.type is ConfigType.PASSWORD:
        return ""
    text = key.format(key.default)
    return f"`{_cell(text)}`" if text else ""


def _changes(key: ConfigKey[Any]) -> str:
    """Where it may be set, and when it may be changed."""
    where = "listener" if key.name in PER_LISTENER_KEYS else "node"
    # What a listener of TLS has beside its stores may be changed at any time, as in Kafka, and counts from the next start on.
    is_fixed = key.update_mode is UpdateMode.READ_ONLY or (key.name in TLS_KEYS and key.name not in STORE_NAMES)
    return where if is_fixed else f"{where}, at run time"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    DOCUMENT.write_text(render(DOCUMENT.read_text()))
