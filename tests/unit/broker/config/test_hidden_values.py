"""What a broker keeps to itself of its configuration."""

from __future__ import annotations

import pytest

from tidelog.broker.config import server_properties
from tidelog.broker.config.config_view import BrokerConfigView
from tidelog.controller.image import ClusterImage
from tidelog.model.broker_config import BROKER_KEYS
from tidelog.model.config import ConfigKey, ConfigKeys, ConfigType, ConfigValues, Password, string_key
from tidelog.model.ids import NodeId

LOCATION = "listener.name.clients.ssl.keystore.location"
PASSWORD = "listener.name.clients.ssl.keystore.password"


def view(given: dict[str, object], hidden: tuple[str, ...] = ()) -> BrokerConfigView:
    return BrokerConfigView.of(ConfigValues(BROKER_KEYS, given, hidden), ClusterImage(), NodeId(1))


def test_a_password_of_a_single_listener_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ConfigKeys(
        [
            string_key("ssl.keystore.location", "", doc="Where it is."),
            ConfigKey("ssl.keystore.password", ConfigType.PASSWORD, None, "Hush."),
        ]
    )
    monkeypatch.setattr(server_properties, "PER_LISTENER_KEYS", keys)

    shown = view({LOCATION: "/store", PASSWORD: Password("hush")})

    assert not shown.is_sensitive(LOCATION)
    assert [each.value for each in shown.synonyms(LOCATION)] == ["/store", ""]
    assert shown.is_sensitive(PASSWORD)
    assert [each.value for each in shown.synonyms(PASSWORD)] == [None]


def test_what_nobody_knows_of_a_listener_is_not_told() -> None:
    assert view({PASSWORD: "hush"}).is_sensitive("listener.name.clients.what")


def test_what_was_looked_up_elsewhere_is_not_told() -> None:
    shown = view({"broker.rack": "hush"}, ("broker.rack",))

    assert shown.is_sensitive("broker.rack")
    assert [each.value for each in shown.synonyms("broker.rack")][:1] == [None]
