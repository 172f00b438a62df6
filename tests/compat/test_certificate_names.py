"""Java's own words for the names that `tests/support/certificate_names.py` has recorded, and stores that `keytool` wrote."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.apache_kafka import REPOSITORY
from tests.support.certificate_names import NAMES
from tests.support.der_writer import element, name_content
from tests.support.tls_files import PASSWORD, new_authority, trusted
from tidelog.security.der import CertificateFields
from tidelog.security.distinguished_name import distinguished_name
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.tls_contexts import client_context, server_context, verify_handshake
from tidelog.security.tls_settings import TlsSettings
from tidelog.security.tls_stores import load_stores

pytestmark = pytest.mark.compat

SOURCE: Path = REPOSITORY / "tests" / "compat" / "NameOracle.java"


def test_java_writes_every_recorded_name_as_recorded(tmp_path: Path) -> None:
    subprocess.run(["javac", "-d", str(tmp_path), str(SOURCE)], check=True, timeout=60)
    asked = "".join(f"{element(0x30, name_content(components)).hex()}\n" for components, _ in NAMES)

    answered = subprocess.run(
        ["java", "-cp", str(tmp_path), "NameOracle"],
        input=asked,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout

    assert [bytes.fromhex(line).decode() for line in answered.split("\n")[: len(NAMES)]] == [name for _, name in NAMES]


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("algorithm", ["RSA", "EC"])
def test_a_key_store_and_a_trust_store_of_keytool_are_read(kind: str, algorithm: str, tmp_path: Path) -> None:
    key_store, trust_store, exported = (str(tmp_path / name) for name in ("keys", "trust", "exported"))
    password = ("-storetype", kind, "-storepass", PASSWORD, "-alias", "Node")
    name = ("-dname", "CN=node 1, OU=Eng, O=Foo\\, Inc, C=DE", "-ext", "SAN=dns:localhost,ip:127.0.0.1")
    keytool("-genkeypair", "-keystore", key_store, *password, "-keyalg", algorithm, "-keypass", PASSWORD, *name)
    keytool("-exportcert", "-keystore", key_store, *password, "-file", exported)
    keytool("-importcert", "-noprompt", "-keystore", trust_store, *password, "-file", exported)
    other = tmp_path / "other.pem"
    other.write_bytes(new_authority().certificate_pem)
    second = ("-storetype", kind, "-storepass", PASSWORD, "-alias", "Zweite CA")
    keytool("-importcert", "-noprompt", "-keystore", trust_store, *second, "-file", str(other))
    given = {
        "ssl.keystore.location": key_store,
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": trust_store,
        "ssl.truststore.password": PASSWORD,
    }
    settings = TlsSettings.of(ListenerSettings(given, "CLIENTS"))

    stores = load_stores(settings)

    assert stores.key is not None
    assert stores.trusted is not None
    assert len(stores.trusted) == 2
    subject = CertificateFields.of(stores.key.certificate).subject
    assert distinguished_name(subject) == "CN=node 1,OU=Eng,O=Foo\\, Inc,C=DE"
    verify_handshake(server_context(settings, stores), client_context(settings, stores))


def test_a_trust_store_of_keytool_without_a_password_is_read(tmp_path: Path) -> None:
    authority = new_authority()
    certificate = tmp_path / "ca.pem"
    certificate.write_bytes(authority.certificate_pem)
    trust_store = str(tmp_path / "trust")
    keytool(
        *("-importcert", "-noprompt", "-storetype", "JKS", "-keystore", trust_store, "-storepass", PASSWORD),
        *("-alias", "ca", "-file", str(certificate)),
    )
    settings = TlsSettings.of(ListenerSettings({"ssl.truststore.location": trust_store}, "CLIENTS"))

    assert load_stores(settings).trusted == trusted(authority)
