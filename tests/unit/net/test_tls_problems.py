"""What is said of TLS that failed, and of what is not TLS."""

from __future__ import annotations

import ssl

import pytest

from tidelog.net.tls_problems import not_tls, tls_problem


def failed(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("TLSV1_ALERT_UNKNOWN_CA", "the client refuses our certificate: it is signed by an authority that"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "the client refuses our certificate: it has expired"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "the client refuses our certificate: the client does not accept it"),
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "the client showed no certificate, and ssl.client.auth requires one"),
        ("NO_SHARED_CIPHER", "there is no cipher suite that both sides allow"),
        ("SOMETHING_NEW", "TLS failed: something new"),
    ],
)  # fmt: skip
def test_the_reason_of_openssl_is_put_into_words(reason: str, told: str) -> None:
    assert tls_problem(failed(reason), "client").startswith(told)


def test_a_node_without_tls_is_recognised_by_what_it_answers() -> None:
    assert "does not speak TLS" in tls_problem(failed("WRONG_VERSION_NUMBER"), "node")


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (b"\x16\x03\x01\x02", None),
        (b"\x16", None),
        (b"\0\0\0\x12", "a frame of the Kafka protocol without TLS"),
        (b"\0", "a frame of the Kafka protocol without TLS"),
        (b"GET /", "an HTTP request"),
        (b"\x15\x03\x03\x00", "a TLS alert"),
        (b"x", "bytes that no TLS connection begins with"),
    ],
)
def test_what_is_not_tls_is_recognised_by_its_first_bytes(first: bytes, told: str | None) -> None:
    said = not_tls(first)

    assert said is None if told is None else told in (said or "")
