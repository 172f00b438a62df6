"""Which fields of metadata records are secrets."""

from __future__ import annotations

import pytest

from tidelog.cli.files.hidden_fields import hidden_fields
from tidelog.wire.messages.internal.cluster_metadata import ConfigRecord, TopicRecord
from tidelog.wire.messages.internal.cluster_security import UserScramCredentialRecord

TOPIC, BROKER = 2, 4


@pytest.mark.parametrize(
    ("kind", "name", "is_hidden"),
    [
        (BROKER, "ssl.keystore.password", True),
        (BROKER, "listener.name.clients.ssl.key.password", True),
        (BROKER, "delegation.token.secret.key", True),
        (BROKER, "what.nobody.knows", True),
        (BROKER, "listener.name.clients.what.nobody.knows", True),
        (BROKER, "num.io.threads", False),
        (BROKER, "listener.name.clients.max.connections", False),
        (TOPIC, "retention.ms", False),
        (TOPIC, "what.nobody.knows", False),
    ],
)
def test_values_of_passwords_and_of_unknown_keys_of_brokers_are(kind: int, name: str, is_hidden: bool) -> None:
    record = ConfigRecord(resource_type=kind, resource_name="1", name=name, value="hush")

    assert hidden_fields(record) == (("value",) if is_hidden else ())


def test_that_a_key_was_removed_is_none() -> None:
    record = ConfigRecord(resource_type=BROKER, resource_name="1", name="ssl.keystore.password", value=None)

    assert hidden_fields(record) == ()


def test_all_but_the_number_of_iterations_of_a_users_password_is() -> None:
    record = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )

    assert hidden_fields(record) == ("salt", "stored_key", "server_key")
    assert hidden_fields(TopicRecord(name="t", topic_id=b"x" * 16)) == ()
