"""Every message in every version: what is written is read again, whole or not at all."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.message_values import values_for
from tidelog.wire.codec import decode, decode_from, encode, encode_parts
from tidelog.wire.errors import MalformedError
from tidelog.wire.messages import all_messages
from tidelog.wire.schema import Message

VALUES_PER_PAIR = 6
CUTS_PER_PAIR = 40

MESSAGES = list(all_messages())


def name(message: type[Message]) -> str:
    return message.__name__


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_a_message_survives_its_bytes(message: type[Message]) -> None:
    for version in message.versions.each():
        for seed in range(VALUES_PER_PAIR):
            value = values_for(message, version, seed)

            data = encode(value, version)

            assert decode(message, version, data) == value
            assert decode(message, version, memoryview(data)) == value
            assert decode_from(message, version, b"before" + data + b"after", 6) == (value, 6 + len(data))
            assert b"".join(encode_parts(value, version)) == data  # type: ignore[arg-type] # no regions among the values


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_defaults_survive_their_bytes(message: type[Message]) -> None:
    for version in message.versions.each():
        assert decode(message, version, encode(message(), version)) == message()


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_a_message_cut_short_or_too_long_is_refused(message: type[Message]) -> None:
    for version in message.versions.each():
        data = encode(values_for(message, version, seed=0), version)
        cuts = range(len(data))
        for cut in cuts if len(cuts) <= CUTS_PER_PAIR else Random(0).sample(cuts, CUTS_PER_PAIR):
            with pytest.raises(MalformedError, match=rf"^{message.__name__} v{version}"):
                decode(message, version, data[:cut])
        with pytest.raises(MalformedError, match="1 bytes follow"):
            decode(message, version, data + b"\0")
