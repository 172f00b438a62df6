"""What a person may say of TLS and SASL, and what the client says about the rest."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from tidelog.client.errors import ConfigError
from tidelog.client.options import ClientArguments, ClientOptions, describe_options, parse_options
from tidelog.client.security_options import secret_names

HERE = {"bootstrap_servers": "a:1"}
SASL: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
OAUTH: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
ENDPOINT = {"sasl_oauthbearer_token_endpoint_url": "https://id.example/token"}


def options(**given: Any) -> ClientOptions:
    return parse_options(ClientOptions, {**HERE, **given})


def test_without_an_option_connections_are_plain() -> None:
    given = options()

    assert given.security_protocol == "PLAINTEXT"
    assert not given.uses_tls
    assert not given.uses_sasl


def test_words_are_taken_in_any_case_as_kafka_takes_them() -> None:
    given = options(
        security_protocol="sasl_ssl", sasl_mechanism="scram-sha-256", sasl_username="alice", sasl_password="x"
    )

    assert given.login_name == "SASL_SSL with SCRAM-SHA-256"
    assert given.uses_tls
    assert given.uses_sasl


@pytest.mark.parametrize(
    "given",
    [
        {"security_protocol": "SSL"},
        {"security_protocol": "SSL", "ssl_truststore_location": "a", "ssl_keystore_location": "b"},
        {"security_protocol": "SSL", "ssl_keystore_key": "k", "ssl_keystore_certificate_chain": "c"},
        {"security_protocol": "SSL", "ssl_enabled_protocols": "TLSv1.3", "ssl_protocol": "TLS"},
        {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": ""},
        {**SASL, "sasl_jaas_config": "anything"},
        {**OAUTH, "sasl_oauthbearer_token": "t"},
        {**OAUTH, "sasl_oauthbearer_token_callback": lambda: "t"},
        {**OAUTH, **ENDPOINT, "sasl_jaas_config": "anything"},
        {**OAUTH, "sasl_oauthbearer_token_endpoint_url": "file:///run/token"},
        {
            **OAUTH,
            **ENDPOINT,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_oauthbearer_client_credentials_client_id": "c",
            "sasl_oauthbearer_client_credentials_client_secret": "s",
            "ssl_truststore_location": "for the endpoint",
        },
    ],
)
def test_what_fits_together_is_taken(given: dict[str, Any]) -> None:
    options(**given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"security_protocol": "TLS"},
            "security_protocol is 'TLS'; it can be PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL",
        ),
        (
            {"sasl_username": "alice", "sasl_password": "x"},
            "sasl_username needs security_protocol SASL_SSL or SASL_PLAINTEXT, and it is PLAINTEXT",
        ),
        (
            {"ssl_truststore_location": "ca.pem"},
            "ssl_truststore_location needs security_protocol SSL or SASL_SSL, and it is PLAINTEXT",
        ),
        (
            {"security_protocol": "SASL_SSL"},
            (
                "security_protocol is SASL_SSL, and sasl_mechanism is not set: "
                "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI"
            ),
        ),
        (
            {**SASL, "sasl_mechanism": "DIGEST-MD5"},
            "sasl_mechanism is 'DIGEST-MD5'; it can be PLAIN or SCRAM-SHA-256 or SCRAM-SHA-512 or OAUTHBEARER or GSSAPI",
        ),
        (SASL, "PLAIN needs sasl_username and sasl_password, or sasl_jaas_config"),
        ({**SASL, "sasl_username": "alice"}, "PLAIN needs sasl_username and sasl_password, or sasl_jaas_config"),
        ({**SASL, "sasl_password": "x"}, "sasl_password is given, and sasl_username is not"),
        (
            {**SASL, "sasl_username": "a", "sasl_password": "x", "sasl_jaas_config": "j"},
            "sasl_username and sasl_jaas_config are both given: one of them says it",
        ),
        ({**OAUTH, "sasl_username": "a", "sasl_password": "x"}, "sasl_username is of no use with OAUTHBEARER"),
        (
            OAUTH,
            (
                "OAUTHBEARER needs sasl_oauthbearer_token_endpoint_url, sasl_oauthbearer_token_callback, "
                "sasl_oauthbearer_token or sasl_jaas_config"
            ),
        ),
        (
            {**OAUTH, **ENDPOINT},
            "sasl_oauthbearer_token_endpoint_url needs sasl_oauthbearer_client_credentials_client_id",
        ),
        (
            {**OAUTH, **ENDPOINT, "sasl_oauthbearer_token": "t"},
            "sasl_oauthbearer_token and sasl_oauthbearer_token_endpoint_url are both given: one of them brings the token",
        ),
        (
            {**OAUTH, "sasl_oauthbearer_token_endpoint_url": "ftp://x"},
            "sasl_oauthbearer_token_endpoint_url is 'ftp://x'; it begins with https://, http:// or file:/",
        ),
        (
            {**OAUTH, "sasl_oauthbearer_token_endpoint_url": "https://user:word@host/token"},
            "sasl_oauthbearer_token_endpoint_url names a user; sasl_oauthbearer_client_credentials_* are for that",
        ),
        (
            {**OAUTH, "sasl_oauthbearer_token": "t", "sasl_oauthbearer_scope": "s"},
            "sasl_oauthbearer_scope needs sasl_oauthbearer_token_endpoint_url",
        ),
        (
            {**SASL, "sasl_username": "a", "sasl_password": "x", "sasl_oauthbearer_scope": "s"},
            "sasl_oauthbearer_scope needs sasl_mechanism OAUTHBEARER, and it is PLAIN",
        ),
        (
            {**SASL, "sasl_mechanism": "NTLM"},
            "sasl_mechanism is 'NTLM'; it can be PLAIN or SCRAM-SHA-256 or SCRAM-SHA-512 or OAUTHBEARER or GSSAPI",
        ),
        (
            {**SASL, "sasl_mechanism": "GSSAPI"},
            "GSSAPI needs sasl_kerberos_service_name, or sasl_jaas_config that says it",
        ),
        (
            {**SASL, "sasl_mechanism": "GSSAPI", "sasl_username": "a", "sasl_password": "x"},
            "sasl_username is of no use with GSSAPI",
        ),
        (
            {**SASL, "sasl_username": "a", "sasl_password": "x", "sasl_kerberos_service_name": "kafka"},
            "sasl_kerberos_service_name needs sasl_mechanism GSSAPI, and it is PLAIN",
        ),
        ({**SASL, "sasl_password": 7}, "sasl_password is not a string, which it has to be"),
        (
            {"security_protocol": "SSL", "ssl_keystore_type": "BKS"},
            "ssl_keystore_type is 'BKS'; it can be JKS or PKCS12 or PEM",
        ),
        (
            {"security_protocol": "SSL", "ssl_keystore_key": "k"},
            "ssl_keystore_key needs ssl_keystore_certificate_chain: a certificate is of no use without its key",
        ),
        (
            {"security_protocol": "SSL", "ssl_keystore_password": "p"},
            "ssl_keystore_password is given, and ssl_keystore_location is not",
        ),
        (
            {"security_protocol": "SSL", "ssl_keystore_location": "k.pem", "ssl_keystore_type": "PEM"}
            | {"ssl_keystore_password": "p"},
            "ssl_keystore_password is given, and PEM has no password; ssl_key_password is for the key in it",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "a", "ssl_truststore_certificates": "b"},
            "ssl_truststore_certificates and ssl_truststore_location are both given: one of them says it",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_certificates": "b", "ssl_truststore_type": "JKS"},
            "ssl_truststore_certificates is PEM, and ssl_truststore_type is JKS",
        ),
        (
            {"security_protocol": "SSL", "ssl_key_password": "p"},
            "ssl_key_password is given, and no key: set ssl_keystore_location or ssl_keystore_key",
        ),
        (
            {"security_protocol": "SSL", "ssl_enabled_protocols": "TLSv1.1"},
            "ssl_enabled_protocols is 'TLSv1.1'; it can name TLSv1.2 and TLSv1.3",
        ),
        (
            {"security_protocol": "SSL", "ssl_enabled_protocols": ["TLSv1.3"], "ssl_protocol": "TLSv1.2"},
            "ssl_protocol is TLSv1.2, which ssl_enabled_protocols does not have",
        ),
        (
            {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": "ldaps"},
            "ssl_endpoint_identification_algorithm is 'ldaps'; it can be 'https', or '' to accept a certificate of any host",
        ),
        (
            {**OAUTH, "sasl_oauthbearer_token": "t", "sasl_login_retry_backoff_max_ms": 10},
            "sasl_login_retry_backoff_max_ms is 10; it can be sasl_login_retry_backoff_ms (100) or more",
        ),
    ],
)
def test_what_does_not_fit_together_is_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options(**given)

    assert str(caught.value) == sentence


def test_a_secret_is_in_no_repr() -> None:
    secret = "hunter2"
    given = options(**SASL, sasl_username="alice", sasl_password=secret, ssl_keystore_location="k.p12")

    assert "alice" in repr(given)
    assert secret not in repr(given)


def test_everything_that_kafka_declares_as_a_password_is_a_secret() -> None:
    assert secret_names() >= {
        "ssl_key_password",
        "ssl_keystore_certificate_chain",
        "ssl_keystore_key",
        "ssl_keystore_password",
        "ssl_truststore_certificates",
        "ssl_truststore_password",
        "sasl_jaas_config",
        "sasl_oauthbearer_client_credentials_client_secret",
    }


def test_no_sentence_about_a_secret_repeats_it() -> None:
    for name in secret_names():
        with pytest.raises(ConfigError) as caught:
            options(**{name: 20_260_118})
        assert "20260118" not in str(caught.value)


def test_type_checkers_know_every_option() -> None:
    assert set(get_type_hints(ClientArguments)) == set(describe_options(ClientOptions))
