"""What a person may pass to a client, and what the client says about the rest."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from tidelog.client.errors import ConfigError
from tidelog.client.options import ClientOptions, describe_options, parse_options
from tidelog.client.producer.options import ProducerArguments, ProducerOptions, parse_producer_options
from tidelog.net.address import Address

HERE = {"bootstrap_servers": "a:1"}


def producer_options(**given: Any) -> ProducerOptions:
    return parse_producer_options({**HERE, **given})  # type: ignore[typeddict-item]


@pytest.mark.parametrize("servers", ["a:1,b:2", ["a:1", "b:2"], ("a:1 ", " b:2"), " a:1, b:2,"])
def test_bootstrap_servers_are_a_text_or_a_list(servers: object) -> None:
    options = parse_options(ClientOptions, {"bootstrap_servers": servers})

    assert options.bootstrap_servers == (Address("a", 1), Address("b", 2))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "bootstrap_servers is missing: name a node of the cluster, as in 127.0.0.1:9092"),
        ({"bootstrap_servers": ""}, "bootstrap_servers names no node: expected host:port, as in 127.0.0.1:9092"),
        ({"bootstrap_servers": 7}, "bootstrap_servers is 7; it is host:port,host:port or a list of host:port"),
        ({"bootstrap_servers": "a:b"}, "'a:b' is not the address of a node: expected host:port, as in 127.0.0.1:9092"),
        ({**HERE, "bootstrap.servers": "a"}, "there is no option 'bootstrap.servers'; did you mean bootstrap_servers?"),
        ({**HERE, "request_timeout": 1}, "there is no option 'request_timeout'; did you mean request_timeout_ms?"),
        ({**HERE, "zzz": 1}, "there is no option 'zzz'"),
        ({**HERE, "client_id": 7}, "client_id is 7; it is a string"),
        ({**HERE, "request_timeout_ms": "7"}, "request_timeout_ms is '7'; it is a whole number"),
        ({**HERE, "request_timeout_ms": True}, "request_timeout_ms is True; it is a whole number"),
        ({**HERE, "request_timeout_ms": 0}, "request_timeout_ms is 0; it can be 1 or more"),
        (
            {**HERE, "metadata_recovery_strategy": "x"},
            "metadata_recovery_strategy is 'x'; it can be 'rebootstrap' or 'none'",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(ClientOptions, given)

    assert str(caught.value) == sentence
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"linger": 5}, "there is no option 'linger'; did you mean linger_ms?"),
        ({"linger_ms": -1}, "linger_ms is -1; it can be 0 or more"),
        ({"linger_ms": float("nan")}, "linger_ms is nan; it is a number"),
        ({"acks": 2}, "acks is 2; it can be 'all' (or -1), 1 or 0"),
        ({"acks": True}, "acks is True; it can be 'all' (or -1), 1 or 0"),
        ({"enable_idempotence": True, "acks": 1}, "enable_idempotence needs acks='all', and acks is 1"),
        ({"enable_idempotence": True, "retries": 0}, "enable_idempotence needs retries, and there are none"),
        (
            {"enable_idempotence": True, "max_in_flight_requests_per_connection": 6},
            "enable_idempotence needs max_in_flight_requests_per_connection to be at most 5",
        ),
        (
            {"compression_type": "rar"},
            "compression_type is 'rar'; it can be 'none' or 'gzip' or 'snappy' or 'lz4' or 'zstd'",
        ),
        ({"compression_level": 3}, "compression_level is 3, and compression none has no levels"),
        ({"compression_type": "gzip", "compression_level": 10}, "compression_level is 10; gzip has 1 to 9"),
        ({"partitioner": "x"}, "partitioner is 'x'; it can be 'default', 'sticky', 'round_robin' or something to call"),
        ({"key_serializer": 3}, "key_serializer is 3; it is something to call, or None"),
        ({"interceptors": "x"}, "interceptors is 'x'; it is a list"),
        (
            {"delivery_timeout_ms": 1000},
            "delivery_timeout_ms is 1000; it can be linger_ms + request_timeout_ms (30005) or more",
        ),
    ],
)
def test_a_producer_checks_its_own(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        producer_options(**given)

    assert str(caught.value) == sentence


def test_idempotence_is_on_unless_another_option_excludes_it() -> None:
    assert producer_options().is_idempotent
    assert not producer_options(acks=1).is_idempotent
    assert not producer_options(max_in_flight_requests_per_connection=6).is_idempotent
    assert not producer_options(enable_idempotence=False).is_idempotent


def test_a_longer_request_timeout_makes_the_delivery_timeout_longer() -> None:
    assert producer_options(request_timeout_ms=200_000).delivery_timeout_ms == 200_005


def test_type_checkers_know_every_option() -> None:
    assert set(get_type_hints(ProducerArguments)) == set(describe_options(ProducerOptions))


def test_every_option_is_documented_by_a_sentence() -> None:
    for name, (_, doc) in describe_options(ProducerOptions).items():
        assert doc.endswith("."), name
