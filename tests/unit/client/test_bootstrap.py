"""How a person names the nodes of a cluster."""

from __future__ import annotations

import pytest

from tidelog.client.errors import ConfigError, refusal
from tidelog.client.options import ClientOptions, parse_options
from tidelog.model.errors import ErrorCode
from tidelog.net.address import Address


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [Address("localhost", 9092)]),
        ("a:1, b:2,", [Address("a", 1), Address("b", 2)]),
        ("kafka", [Address("kafka", 9092)]),
        ("[::1]:9093", [Address("::1", 9093)]),
        ("[::1]", [Address("::1", 9092)]),
    ],
)
def test_hosts_with_and_without_ports(text: str, addresses: list[Address]) -> None:
    assert parse_options(ClientOptions, {"bootstrap_servers": text}).bootstrap_servers == tuple(addresses)


@pytest.mark.parametrize(
    "text", ["", ",", ":9092", "host:", "host:port", "host:0", "host:65536", "::1", "host:-1", "h:٣"]
)
def test_what_is_no_address_is_one_error(text: str) -> None:
    with pytest.raises(ConfigError, match="expected host:port"):
        parse_options(ClientOptions, {"bootstrap_servers": text})


def test_a_refusal_has_the_clusters_words_and_the_codes_name() -> None:
    error = refusal(ErrorCode.INVALID_CONFIG, "retention.ms is no number", about="topic orders")

    assert str(error) == "topic orders: retention.ms is no number (INVALID_CONFIG)"
    assert error.code is ErrorCode.INVALID_CONFIG


def test_a_code_that_nobody_knows_is_shown_as_its_number() -> None:
    error = refusal(9999, None)

    assert str(error).endswith("(error 9999)")
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
