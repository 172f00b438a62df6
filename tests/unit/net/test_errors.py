"""What a connection says of bytes that are no frame."""

from __future__ import annotations

import pytest

from tidelog.net.errors import FrameError, not_a_frame


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (b"GET ", "an HTTP request"),
        (b"POST", "an HTTP request"),
        (b"PRI ", "an HTTP request"),
        (b"HTTP", "an HTTP response"),
        (b"SSH-", "the greeting of an SSH client or server"),
        (
            b"\x16\x03\x01\x02",
            "the start of a TLS connection (is security.protocol=SSL set for a listener without TLS?)",
        ),
        (b"\x15\x03\x03\x00", "a TLS alert (does the listener there want TLS?)"),
    ],
)
def test_another_protocol_is_named(first: bytes, what: str) -> None:
    error = not_a_frame(int.from_bytes(first, "big", signed=True), 1000)

    assert isinstance(error, FrameError)
    assert str(error) == f"{what}, where a frame of the Kafka protocol was to come"


@pytest.mark.parametrize("size", [-1, 1001, 0x16040102, 2**31 - 1, -(2**31)])
def test_any_other_size_is_given_with_what_is_allowed(size: int) -> None:
    assert str(not_a_frame(size, 1000)) == f"a frame of {size} bytes, where 0 to 1000 are allowed"
