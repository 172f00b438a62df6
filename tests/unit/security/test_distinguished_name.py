"""Names of certificates as Java writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.certificate_names import NAMES
from tests.support.der_writer import Attribute, name_content
from tidelog.security.certificate_authority import CertificateAuthority
from tidelog.security.der import CertificateFields, DerError
from tidelog.security.distinguished_name import distinguished_name, same_name
from tidelog.security.pem import trust_store_from_pem

COMMON_NAME = "2.5.4.3"
UTF8 = 0x0C


def common_name(text: str) -> bytes:
    return name_content([[(COMMON_NAME, UTF8, text.encode())]])


@pytest.mark.parametrize(("components", "written"), NAMES)
def test_a_name_is_written_as_java_writes_it(components: list[list[Attribute]], written: str) -> None:
    assert distinguished_name(name_content(components)) == written


def test_the_name_of_a_certificate_is_that_of_its_subject() -> None:
    authority = CertificateAuthority.create(datetime(2030, 1, 1, tzinfo=UTC), name="Root, Inc")
    certificate = trust_store_from_pem(authority.client_certificate("alice").chain_pem.decode()).trusted[0]

    fields = CertificateFields.of(certificate)

    assert distinguished_name(fields.subject) == "CN=alice"
    assert distinguished_name(fields.issuer) == "CN=Root\\, Inc"
    assert fields.not_after == datetime(2031, 1, 1, tzinfo=UTC)


def test_names_are_the_same_whatever_their_case_and_blanks() -> None:
    assert same_name(common_name("Some  Node"), common_name("some node"))
    assert not same_name(common_name("some node"), common_name("another node"))


@pytest.mark.parametrize(
    "damaged",
    [b"\x31", b"\x31\x05\x00", b"\x30\x00", b"\x31\x02\x30\x00", b"\x31\x84\xff\xff\xff\xff", b"\x1f\x00", b"\x31\x80"],
)
def test_a_damaged_name_is_a_fault_of_its_own(damaged: bytes) -> None:
    with pytest.raises(DerError):
        distinguished_name(damaged)
