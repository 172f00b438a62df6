"""The three formats of stores, what they hold, and what is said of one that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.tls_files import (
    PASSWORD,
    encrypted_pem,
    jks_store,
    key_settings,
    material,
    new_authority,
    pkcs12_store,
    trust_settings,
    trusted,
)
from tidelog.model.config import ConfigError
from tidelog.security import jks
from tidelog.security.jks import store_from_jks
from tidelog.security.key_material import KeyMaterial, StoreError, ordered_chain
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.pem import certificate_pem, key_store_from_pem, private_key_pem, trust_store_from_pem
from tidelog.security.pkcs12 import store_from_pkcs12
from tidelog.security.tls_settings import TlsSettings
from tidelog.security.tls_stores import TlsStores, load_stores, modification_times

AUTHORITY = new_authority()
NODE = AUTHORITY.node_certificate(["localhost"])
KINDS = ("JKS", "PKCS12", "PEM", "PEM in the configuration")


def load(settings: dict[str, str]) -> TlsStores:
    return load_stores(TlsSettings.of(ListenerSettings(settings, "CLIENTS")))


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_store_of_each_kind_gives_the_key_and_its_chain(kind: str, tmp_path: Path) -> None:
    stores = load(key_settings(kind, tmp_path, "node", NODE))

    assert stores.key == material(NODE)
    assert stores.trusted is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_trust_store_of_each_kind_gives_its_certificates(kind: str, tmp_path: Path) -> None:
    other = new_authority("Other CA")

    stores = load(trust_settings(kind, tmp_path, "trust", AUTHORITY, other))

    assert stores.key is None
    assert stores.trusted is not None
    assert set(stores.trusted) == {*trusted(AUTHORITY), *trusted(other)}


@pytest.mark.parametrize(("told", "written"), [("JKS", "PKCS12"), ("PKCS12", "JKS")])
def test_a_file_of_the_other_kind_is_read_as_java_reads_it(told: str, written: str, tmp_path: Path) -> None:
    settings = {**key_settings(written, tmp_path, "node", NODE), "ssl.keystore.type": told}

    assert load(settings).key == material(NODE)


def test_the_key_of_a_jks_store_may_have_a_password_of_its_own() -> None:
    data = jks_store([material(NODE)], [], PASSWORD, "another")

    assert store_from_jks(data, PASSWORD, "another").keys == (material(NODE),)
    with pytest.raises(StoreError, match="the password of the private key is wrong"):
        store_from_jks(data, PASSWORD, None)


def test_a_jks_store_without_a_password_is_not_checked_and_may_hold_no_key() -> None:
    tampered = bytearray(jks_store([], trusted(AUTHORITY), PASSWORD))
    tampered[-1] ^= 1

    assert store_from_jks(bytes(tampered), None, None).trusted == trusted(AUTHORITY)
    with pytest.raises(StoreError, match="tampered"):
        store_from_jks(bytes(tampered), PASSWORD, None)
    with pytest.raises(StoreError, match="needs a password"):
        store_from_jks(jks_store([material(NODE)], [], PASSWORD), None, None)


def test_a_jks_store_that_is_cut_anywhere_is_refused() -> None:
    data = jks_store([material(NODE)], trusted(AUTHORITY), PASSWORD)

    for end in range(len(data)):
        with pytest.raises(StoreError):
            store_from_jks(data[:end], PASSWORD, None)
        with pytest.raises(StoreError):
            store_from_jks(data[:end] + bytes(20), None, "x")


def test_a_jks_store_that_announces_much_is_refused() -> None:
    with pytest.raises(StoreError, match="more than"):
        store_from_jks(jks.MAGIC + b"\0\0\0\2\x7f\xff\xff\xff" + bytes(20), None, None)
    with pytest.raises(StoreError, match="larger than"):
        store_from_jks(jks.MAGIC + bytes(5_000_000), None, None)


def test_certificates_beside_a_key_are_trusted_if_they_have_names() -> None:
    other = new_authority("Other CA")

    content = store_from_pkcs12(pkcs12_store([material(NODE)], trusted(other), PASSWORD), PASSWORD)

    assert content.keys == (material(NODE),)
    assert content.trusted == trusted(other)


@pytest.mark.parametrize("password", ["wrong", None])
def test_a_pkcs12_store_with_another_password_is_refused(password: str | None) -> None:
    with pytest.raises(StoreError, match="password"):
        store_from_pkcs12(pkcs12_store([material(NODE)], [], PASSWORD), password)


def test_an_encrypted_pem_key_needs_its_password() -> None:
    text = encrypted_pem(NODE, PASSWORD).decode()

    key = key_store_from_pem(text, NODE.chain_pem.decode(), PASSWORD).keys[0]

    assert key == material(NODE)
    with pytest.raises(StoreError, match="needs a password"):
        key_store_from_pem(text, NODE.chain_pem.decode(), None)
    with pytest.raises(StoreError, match="password of the key right"):
        key_store_from_pem(text, NODE.chain_pem.decode(), "wrong")


def test_a_password_for_a_pem_key_in_the_clear_is_refused() -> None:
    with pytest.raises(StoreError, match="not encrypted"):
        key_store_from_pem(NODE.key_pem.decode(), NODE.chain_pem.decode(), PASSWORD)


def test_pem_may_be_on_one_line_with_other_text_around_it() -> None:
    text = f"Subject: me {NODE.chain_pem.decode().replace(chr(10), ' ')} the end"

    assert trust_store_from_pem(text).trusted == material(NODE).chain


def test_pem_is_written_as_it_is_read() -> None:
    key = material(NODE)

    assert private_key_pem(key.private_key).encode() == NODE.key_pem
    assert "".join(map(certificate_pem, key.chain)).encode() == NODE.chain_pem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA", "has no end"),
        ("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----", "base64"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "base64"),
    ],
)
def test_what_is_no_pem_is_refused(text: str, problem: str) -> None:
    with pytest.raises(StoreError, match=problem):
        trust_store_from_pem(text)


def test_two_keys_in_one_pem_are_refused() -> None:
    with pytest.raises(StoreError, match="2 private keys"):
        key_store_from_pem((NODE.key_pem * 2).decode(), NODE.chain_pem.decode(), None)


def test_a_chain_is_put_in_order() -> None:
    certificate, authority = material(NODE).chain
    stranger = trusted(new_authority("Other CA"))[0]

    assert ordered_chain(certificate, (stranger, authority)) == (certificate, authority)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "PEM"])
def test_a_store_that_is_not_there_is_one_sentence(kind: str, tmp_path: Path) -> None:
    settings = key_settings(kind, tmp_path, "node", NODE)
    Path(settings["ssl.keystore.location"]).unlink()

    with pytest.raises(ConfigError, match=r"the key store .*node\..* cannot be used: No such file or directory"):
        load(settings)


def test_a_wrong_password_is_one_sentence_without_the_password(tmp_path: Path) -> None:
    settings = {**key_settings("JKS", tmp_path, "node", NODE), "ssl.keystore.password": "mistaken"}

    with pytest.raises(ConfigError, match="its password is wrong, or it was tampered with") as caught:
        load(settings)

    assert "mistaken" not in str(caught.value)


def test_a_file_that_was_written_again_has_another_time(tmp_path: Path) -> None:
    settings = TlsSettings.of(ListenerSettings(key_settings("PEM", tmp_path, "node", NODE), "CLIENTS"))
    before = modification_times(settings)
    path = tmp_path / "node.pem"
    path.write_bytes(NODE.key_pem + NODE.chain_pem)

    os.utime(path, ns=(1, 1))

    assert modification_times(settings) == (1, None)
    assert before != (1, None)


def test_nothing_of_a_key_is_shown() -> None:
    assert repr(KeyMaterial(b"secret", (b"certificate",))) == "KeyMaterial(<1 certificates>)"
