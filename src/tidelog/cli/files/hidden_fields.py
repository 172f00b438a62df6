"""The fields of metadata records that are secrets: `dump-log` hides them, as Kafka's own log lines do."""

from __future__ import annotations

from tidelog.model.broker_config import BROKER_KEYS, PER_LISTENER_KEYS
from tidelog.model.config import ConfigKey
from tidelog.model.unused_config import unused_keys
from tidelog.security.listener_settings import without_listener
from tidelog.wire.messages.internal.cluster_metadata import ConfigRecord
from tidelog.wire.messages.internal.cluster_security import UserScramCredentialRecord
from tidelog.wire.schema import Message

HIDDEN = "[hidden]"

_BROKER_RESOURCE = 4


def hidden_fields(message: Message) -> tuple[str, ...]:
    """The names of a message's fields that are not to be shown."""
    match message:
        case UserScramCredentialRecord():
            return ("salt", "stored_key", "server_key")
        case ConfigRecord(resource_type=kind, name=name, value=value) if kind == _BROKER_RESOURCE and value is not None:
            return ("value",) if _is_secret(name) else ()
    return ()


def _is_secret(name: str) -> bool:
    """Whether a broker's key holds a secret. So may one that nobody knows."""
    base = without_listener(name)
    unused = unused_keys().get(base)
    key: ConfigKey[object] | None = BROKER_KEYS.get(base) or (None if unused is None else unused.key)
    if key is None and base != name:
        key = PER_LISTENER_KEYS.get(base) or PER_LISTENER_KEYS.get(base.partition(".")[2])
    return key is None or key.is_sensitive
