"""Which authorisers a node starts with, and which listeners serve before the ACLs are there."""

from __future__ import annotations

import pytest

from tidelog.broker.config.node_config import authorizer_of, check_authorizer, starts_early
from tidelog.model.authorizer_config import STANDARD_AUTHORIZER
from tidelog.model.broker_config import BROKER_KEYS
from tidelog.model.config import ConfigError, ConfigValues


def config(**settings: str) -> ConfigValues:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return BROKER_KEYS.parse(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            **given,
        }
    )


def test_without_a_class_there_is_no_authoriser() -> None:
    check_authorizer(config())
    assert authorizer_of(config()) is None


def test_kafkas_own_authoriser_is_taken() -> None:
    given = config(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:a;User:b")
    check_authorizer(given)
    assert authorizer_of(given) is not None


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"authorizer_class_name": "com.example.Mine"},
            "authorizer.class.name is com.example.Mine, which is not supported",
        ),
        ({"super_users": "alice"}, "super.users names alice, which is no principal"),
        ({"early_start_listeners": "OTHER"}, "early.start.listeners contains listener OTHER"),
    ],
)
def test_what_cannot_be_is_said(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check_authorizer(config(**settings))


def test_the_controllers_listeners_serve_early_unless_it_is_said_otherwise() -> None:
    assert starts_early(config(), "CONTROLLER")
    assert not starts_early(config(), "PLAINTEXT")
    assert not starts_early(config(early_start_listeners=""), "CONTROLLER")
    assert starts_early(config(early_start_listeners="plaintext"), "PLAINTEXT")
