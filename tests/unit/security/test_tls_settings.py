"""What the configuration says of TLS for one listener."""

from __future__ import annotations

import pytest

from tidelog.broker.config.server_properties import check_properties
from tidelog.model.config import ConfigError
from tidelog.security.cipher_suites import ALL_SUITES, TLS_1_3_SUITES, cipher_suites
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.tls_settings import ClientAuth, StoreSettings, TlsSettings, principal_rules

OLDER = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"


def settings_of(given: dict[str, str], *, is_sasl: bool = False) -> TlsSettings:
    values = check_properties(given).values
    return TlsSettings.of(ListenerSettings(values.given, "CLIENTS"), is_sasl=is_sasl)


def test_without_anything_set_all_is_as_in_kafka() -> None:
    settings = settings_of({})

    assert settings == TlsSettings(("TLSv1.2", "TLSv1.3"), ALL_SUITES, ClientAuth.NONE, None, None, True, False, False)


def test_the_value_of_the_listener_goes_before_that_of_the_node() -> None:
    settings = settings_of(
        {
            "ssl.truststore.location": "/all",
            "listener.name.clients.ssl.truststore.location": "/own",
            "listener.name.other.ssl.truststore.location": "/other",
        }
    )

    assert settings.trust_store == StoreSettings("JKS", "/own", None)


def test_a_listener_with_sasl_asks_for_certificates_only_by_its_own_setting() -> None:
    everywhere = {"ssl.client.auth": "required"}
    own = {"listener.name.clients.ssl.client.auth": "requested"}

    assert settings_of(everywhere, is_sasl=True).client_auth is ClientAuth.NONE
    assert settings_of(everywhere).client_auth is ClientAuth.REQUIRED
    assert settings_of({**everywhere, **own}, is_sasl=True).client_auth is ClientAuth.REQUESTED


@pytest.mark.parametrize(
    ("given", "versions"),
    [
        ({"ssl.enabled.protocols": "TLSv1.3"}, ("TLSv1.3", "TLSv1.3")),
        ({"ssl.enabled.protocols": "TLSv1.3,TLSv1.2"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.enabled.protocols": "", "ssl.protocol": "TLSv1.2"}, ("TLSv1.2", "TLSv1.2")),
        ({"ssl.enabled.protocols": "", "ssl.protocol": "TLS"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.cipher.suites": OLDER}, ("TLSv1.2", "TLSv1.2")),
        ({"ssl.cipher.suites": ",".join(TLS_1_3_SUITES)}, ("TLSv1.3", "TLSv1.3")),
        ({"ssl.cipher.suites": ",".join((OLDER, *TLS_1_3_SUITES))}, ("TLSv1.2", "TLSv1.3")),
    ],
)
def test_versions_follow_from_those_enabled_and_from_the_ciphers(
    given: dict[str, str], versions: tuple[str, str]
) -> None:
    assert settings_of(given).versions == versions


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"ssl.enabled.protocols": "TLSv1.1"}, "names TLSv1.1"),
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol is SSLv3"),
        ({"ssl.cipher.suites": TLS_1_3_SUITES[0]}, "cannot be chosen one by one"),
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA38"}, "did you mean TLS_ECDHE_RSA_WITH_AES_256_GCM"),
        ({"ssl.cipher.suites": OLDER, "ssl.enabled.protocols": "TLSv1.3"}, "names no cipher suite of TLSv1.3"),
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "only https"),
        ({"ssl.keystore.type": "BCFKS"}, "only JKS, PKCS12 and PEM"),
        ({"ssl.keystore.location": "/k"}, "key store password is not specified"),
        ({"ssl.keystore.password": "p"}, "SSL key store is not specified"),
        ({"ssl.keystore.key": "k"}, "only for PEM, but key store type is JKS"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.key": "k"}, "certificate chain is not specified"),
        ({"ssl.keystore.certificate.chain": "c"}, "private key is not specified"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/k", "ssl.keystore.password": "p"}, "with PEM format"),
        (
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "/k",
                "ssl.keystore.key": "k",
                "ssl.keystore.certificate.chain": "c",
            },
            "Both SSL key store location",
        ),
        ({"ssl.truststore.password": "p"}, "SSL trust store is not specified"),
        ({"ssl.truststore.certificates": "c"}, "only for PEM, but trust store type is JKS"),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.location": "/t", "ssl.truststore.password": "p"}, "PEM format"),
    ],
)
def test_what_contradicts_itself_is_refused_in_a_sentence(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        settings_of(given)


@pytest.mark.parametrize(
    "name", ["ssl.engine.factory.class", "principal.builder.class", "listener.name.clients.ssl.engine.factory.class"]
)
def test_a_foreign_class_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match="Java classes"):
        check_properties({name: "com.example.Own"})


@pytest.mark.parametrize("name", ["ssl.provider", "ssl.keymanager.algorithm", "listener.name.clients.ssl.provider"])
def test_what_only_a_jvm_can_do_is_told_as_without_effect(name: str) -> None:
    assert "OpenSSL" in check_properties({name: "Conscrypt"}).without_effect[name]


def test_rules_that_cannot_be_are_refused_with_their_key() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules: Invalid rule: `nonsense`"):
        principal_rules(ListenerSettings({"ssl.principal.mapping.rules": "nonsense"}, "CLIENTS"))


def test_ciphers_of_tls_1_2_are_handed_to_openssl_by_its_names() -> None:
    assert cipher_suites([OLDER]).openssl == "ECDHE-RSA-AES256-GCM-SHA384"


def test_no_password_is_shown() -> None:
    assert "secret" not in repr(StoreSettings("JKS", "/k", "secret", "secret"))
