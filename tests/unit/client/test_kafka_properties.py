"""Options as a client.properties has them."""

from __future__ import annotations

import pytest

from tidelog.client.admin.options import AdminOptions
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.errors import ConfigError
from tidelog.client.kafka_properties import in_kafka_names, read_properties
from tidelog.client.options import parse_options
from tidelog.client.producer.options import ProducerOptions

OAUTH = "org.apache.kafka.common.security.oauthbearer"


def test_kafkas_keys_are_the_clients_options() -> None:
    read = read_properties(
        ProducerOptions,
        {
            "bootstrap.servers": "a:1, b:2",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": ' org...ScramLoginModule required username="a" password=" b ";',
            "ssl.enabled.protocols": "TLSv1.2, TLSv1.3",
            "ssl.endpoint.identification.algorithm": "",
            "sasl.login.refresh.window.factor": "0.7",
            "sasl.login.refresh.buffer.seconds": "30",
            "sasl.oauthbearer.header.urlencode": "true",
            "request.timeout.ms": " 5000 ",
            "linger.ms": "0.5",
            "acks": "ALL",
        },
    )

    assert read.unknown == ()
    assert read.settings == {
        "bootstrap_servers": "a:1, b:2",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_jaas_config": ' org...ScramLoginModule required username="a" password=" b ";',
        "ssl_enabled_protocols": "TLSv1.2, TLSv1.3",
        "ssl_endpoint_identification_algorithm": "",
        "sasl_login_refresh_window_factor": 0.7,
        "sasl_login_refresh_buffer_seconds": 30,
        "sasl_oauthbearer_header_urlencode": True,
        "request_timeout_ms": 5000,
        "linger_ms": 0.5,
        "acks": "all",
    }


def test_what_a_client_does_not_have_is_left_to_the_caller() -> None:
    given = {"linger.ms": "5", "ssl.provider": "SunJSSE", "group.id": "g"}

    assert read_properties(AdminOptions, given).unknown == ("linger.ms", "ssl.provider", "group.id")
    assert read_properties(ConsumerOptions, given).unknown == ("linger.ms", "ssl.provider")


def test_classes_that_do_what_clients_do_by_themselves_are_left_out() -> None:
    read = read_properties(
        AdminOptions,
        {
            "sasl.login.callback.handler.class": f"{OAUTH}.secured.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.jwt.validator.class": f"{OAUTH}.DefaultJwtValidator",
        },
    )

    assert read == ({}, ())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"request.timeout.ms": "soon"}, "request.timeout.ms is 'soon'; it is a whole number"),
        ({"sasl.login.refresh.window.factor": "x"}, "sasl.login.refresh.window.factor is 'x'; it is a number"),
        ({"sasl.oauthbearer.header.urlencode": "1"}, "sasl.oauthbearer.header.urlencode is '1'; it is true or false"),
        (
            {"ssl.engine.factory.class": "com.example.Engine"},
            "ssl.engine.factory.class names a class of Java, which cannot be loaded here",
        ),
        (
            {"sasl.login.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler"},
            (
                "sasl.login.callback.handler.class names a class of Java, which cannot be loaded here: "
                "a Python program can give sasl_oauthbearer_token_callback"
            ),
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_properties(AdminOptions, given)

    assert str(caught.value) == sentence


def test_sentences_about_options_can_be_told_in_kafkas_names() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(
            AdminOptions, {"bootstrap_servers": "a:1", "ssl_keystore_password": "x", "security_protocol": "SSL"}
        )

    assert in_kafka_names(str(caught.value)) == "ssl.keystore.password is given, and ssl.keystore.location is not"
