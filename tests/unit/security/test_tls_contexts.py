"""Contexts for accepting and for calling, shaken hands with in memory."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.tls_files import material, new_authority, trusted
from tidelog.model.config import ConfigError
from tidelog.security.certificate_authority import Certificate, CertificateAuthority
from tidelog.security.der import CertificateFields
from tidelog.security.key_store_change import check_mutual_trust, check_replacement
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.tls_contexts import client_context, server_context, verify_handshake
from tidelog.security.tls_settings import TlsSettings
from tidelog.security.tls_stores import TlsStores

AUTHORITY, OTHER = new_authority(), new_authority("Other CA")
NODE = AUTHORITY.node_certificate(["localhost"])


def settings(**given: object) -> TlsSettings:
    return TlsSettings.of(ListenerSettings({name.replace("_", "."): value for name, value in given.items()}, "L"))


def stores(certificate: Certificate | None, *authorities: CertificateAuthority) -> TlsStores:
    key = None if certificate is None else material(certificate)
    return TlsStores(key, trusted(*authorities) if authorities else None, (None, None))


def test_a_client_that_trusts_the_authority_shakes_hands() -> None:
    verify_handshake(server_context(settings(), stores(NODE)), client_context(settings(), stores(None, AUTHORITY)))


def test_a_client_that_trusts_another_does_not() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        verify_handshake(server_context(settings(), stores(NODE)), client_context(settings(), stores(None, OTHER)))


def test_a_certificate_that_is_trusted_itself_needs_no_authority() -> None:
    own = TlsStores(None, (material(NODE).certificate,), (None, None))

    verify_handshake(server_context(settings(), stores(NODE)), client_context(settings(), own))


def test_a_certificate_that_has_expired_is_refused() -> None:
    expired = AUTHORITY.node_certificate(["localhost"], lifetime=timedelta(hours=-1))

    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        verify_handshake(
            server_context(settings(), stores(expired)), client_context(settings(), stores(None, AUTHORITY))
        )


def test_a_listener_that_requires_a_certificate_takes_one_that_it_trusts() -> None:
    required = server_context(settings(ssl_client_auth="required"), stores(NODE, AUTHORITY))
    shown = client_context(settings(), stores(AUTHORITY.client_certificate("alice"), AUTHORITY))

    verify_handshake(required, shown)


@pytest.mark.parametrize("client", [None, OTHER.client_certificate("mallory")])
def test_and_refuses_none_and_one_of_a_stranger(client: Certificate | None) -> None:
    required = server_context(settings(ssl_client_auth="required"), stores(NODE, AUTHORITY))

    with pytest.raises(ssl.SSLError):
        verify_handshake(required, client_context(settings(), stores(client, AUTHORITY)))


def test_a_requested_certificate_may_be_missing() -> None:
    requested = server_context(settings(ssl_client_auth="requested"), stores(NODE, AUTHORITY))

    verify_handshake(requested, client_context(settings(), stores(None, AUTHORITY)))


def test_versions_are_those_of_the_settings() -> None:
    context = server_context(settings(ssl_enabled_protocols=("TLSv1.2",)), stores(NODE))

    assert context.minimum_version is context.maximum_version is ssl.TLSVersion.TLSv1_2


def test_a_listener_needs_a_key() -> None:
    with pytest.raises(ConfigError, match="needs a key store"):
        server_context(settings(), stores(None, AUTHORITY))


def test_a_key_of_another_certificate_is_refused() -> None:
    key = material(NODE)._replace(chain=material(AUTHORITY.node_certificate(["localhost"])).chain)

    with pytest.raises(ConfigError, match="cannot be used: KEY_VALUES_MISMATCH"):
        server_context(settings(), TlsStores(key, None, (None, None)))


def test_without_files_in_memory_a_key_is_loaded_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)

    verify_handshake(server_context(settings(), stores(NODE)), client_context(settings(), stores(None, AUTHORITY)))


def test_host_names_are_checked_unless_that_is_off() -> None:
    assert client_context(settings(), stores(None, AUTHORITY)).check_hostname
    off = client_context(settings(ssl_endpoint_identification_algorithm=""), stores(None, AUTHORITY))
    assert not off.check_hostname
    assert off.verify_mode is ssl.CERT_REQUIRED


# Replacing stores at run time.


def replacing(old: TlsStores, new: TlsStores, **given: object) -> None:
    check_replacement(old, new, settings(**given))


def test_a_certificate_of_the_same_names_may_replace_another() -> None:
    replacing(stores(NODE), stores(AUTHORITY.node_certificate(["localhost"])))
    replacing(stores(NODE), stores(AUTHORITY.node_certificate(["localhost", "other"], name="LOCALHOST")))


def test_one_of_another_name_may_not_unless_allowed() -> None:
    renamed = stores(AUTHORITY.node_certificate(["localhost"], name="other"))

    with pytest.raises(
        ConfigError, match=r"DistinguishedName does not match:  existing={DN=CN=localhost}, new={DN=CN=other}"
    ):
        replacing(stores(NODE), renamed)
    replacing(stores(NODE), renamed, ssl_allow_dn_changes=True)


def test_one_that_lacks_an_alternative_name_may_not_unless_allowed() -> None:
    before = stores(AUTHORITY.node_certificate(["localhost", "127.0.0.1"]))
    after = stores(AUTHORITY.node_certificate(["localhost"]))

    with pytest.raises(ConfigError, match=r"SubjectAltNames do not match:  existing={SAN=\[7f000001, localhost\]}"):
        replacing(before, after)
    replacing(before, after, ssl_allow_san_changes=True)


def test_a_listener_neither_gains_nor_loses_a_store() -> None:
    with pytest.raises(ConfigError, match="Cannot add SSL keystore"):
        replacing(stores(None), stores(NODE))
    with pytest.raises(ConfigError, match="Cannot remove the SSL keystore"):
        replacing(stores(NODE), stores(None))
    with pytest.raises(ConfigError, match="Cannot add SSL truststore"):
        replacing(stores(NODE), stores(NODE, AUTHORITY))


def test_between_brokers_the_old_and_the_new_must_trust_each_other() -> None:
    theirs = settings()
    old, new = stores(NODE, AUTHORITY), stores(AUTHORITY.node_certificate(["localhost"]), AUTHORITY)
    stranger = stores(OTHER.node_certificate(["localhost"]), OTHER)

    check_mutual_trust(theirs, old, theirs, new)
    with pytest.raises(ConfigError, match="do not verify each other"):
        check_mutual_trust(theirs, old, theirs, stranger)


def test_an_authority_makes_certificates_that_say_what_they_are_for() -> None:
    authority = CertificateAuthority.create(datetime(2030, 1, 1, tzinfo=UTC))

    fields = CertificateFields.of(material(authority.node_certificate(["node-1", "::1"])).certificate)

    assert fields.alternative_names == {b"\x82node-1", b"\x87" + bytes(15) + b"\x01"}
    assert fields.not_before < datetime(2030, 1, 1, tzinfo=UTC) < fields.not_after
