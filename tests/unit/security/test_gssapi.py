"""GSSAPI's two messages behind a context, with contexts that seal by writing their name before the message."""

from __future__ import annotations

import pytest

from tidelog.model.pending import Pending
from tidelog.model.slow_work import InlineSlowWork
from tidelog.security.kerberos_names import ShortNames
from tidelog.security.sasl.exchange import (
    Evaluated,
    SaslAuthenticationError,
    SaslError,
    UnexpectedTokenError,
)
from tidelog.security.sasl.gssapi import GssapiClient, GssapiServer, GssError

SEAL = b"sealed:"
OFFER = b"\x01\0\0\0"


class Context:
    """Says the tokens that it is told to, one at each step, and is established with the last."""

    def __init__(self, *tokens: bytes, peer_name: str = "alice@EXAMPLE.COM") -> None:
        self._tokens = list(tokens)
        self.taken: list[bytes] = []
        self.peer_name = peer_name

    @property
    def is_established(self) -> bool:
        return not self._tokens

    def step(self, token: bytes) -> bytes:
        self.taken.append(token)
        if token == b"bad":
            raise GssError("Ticket expired")
        return self._tokens.pop(0)

    def wrap(self, message: bytes) -> bytes:
        return SEAL + message

    def unwrap(self, token: bytes) -> bytes:
        if not token.startswith(SEAL):
            raise GssError("Token header is malformed or corrupt")
        return token[len(SEAL) :]


def server(context: Context, *rules: str) -> GssapiServer:
    names = ShortNames.parse("EXAMPLE.COM", rules or ("DEFAULT",))
    return GssapiServer(lambda: context, names, InlineSlowWork())


def client(context: Context) -> GssapiClient:
    return GssapiClient(lambda: context, InlineSlowWork())


def said(evaluated: Evaluated) -> bytes:
    outcome = evaluated.value if isinstance(evaluated, Pending) else evaluated
    if isinstance(outcome, SaslError):
        raise outcome
    return outcome


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [([b"ticket"], [b""]), ([b"ticket", b""], [b"proof"])],
    ids=["the server's seal proves it", "the server proves itself"],
)
def test_both_sides_agree_on_no_layer(ours: list[bytes], theirs: list[bytes]) -> None:
    asking, answering = client(Context(*ours)), server(Context(*theirs))

    token = said(asking.evaluate(b""))
    tokens = [token]
    while not asking.is_complete:
        token = said(answering.evaluate(token))
        tokens.append(token)
        token = said(asking.evaluate(token))
        tokens.append(token)

    assert answering.is_complete
    assert str(answering.principal) == "User:alice"
    assert tokens[-4:] == [SEAL + OFFER, SEAL + OFFER, b"", b""]


def test_whom_a_client_wants_to_act_as_counts_for_nothing() -> None:
    answering = server(Context(b"", peer_name="kafka/host@EXAMPLE.COM"), "RULE:[2:$1-$2]")
    said(answering.evaluate(b"ticket"))

    last = said(answering.evaluate(SEAL + OFFER + b"root@EXAMPLE.COM"))

    assert last == b""
    assert answering.principal.name == "kafka-host"
    assert answering.session_end_ms is None


@pytest.mark.parametrize(
    ("choice", "error", "text"),
    [
        (b"unsealed", SaslError, "Final handshake step failed: Token header is malformed"),
        (SEAL, UnexpectedTokenError, "has 0 bytes"),
        (SEAL + b"\x01\0\0", UnexpectedTokenError, "has 3 bytes"),
        (SEAL + b"\x02\0\x10\0", SaslError, "Client selected unsupported protection: 2"),
        (SEAL + b"\x03\0\x10\0", SaslError, "Client selected unsupported protection: 3"),
        (SEAL + b"\0\0\0\0", SaslError, "Client selected unsupported protection: 0"),
    ],
)
def test_a_choice_that_was_not_offered_ends_it(choice: bytes, error: type[SaslError], text: str) -> None:
    answering = server(Context(b""))
    said(answering.evaluate(b"ticket"))

    with pytest.raises(error, match=text) as refused:
        said(answering.evaluate(choice))

    assert type(refused.value) is error
    assert not answering.is_complete


def test_a_principal_without_a_rule_is_told_so() -> None:
    answering = server(Context(b"", peer_name="alice@OTHER.ORG"))
    said(answering.evaluate(b"ticket"))

    with pytest.raises(SaslAuthenticationError, match=r"Failed to set name for 'alice@OTHER\.ORG' based on Kerberos"):
        said(answering.evaluate(SEAL + OFFER))

    assert not answering.is_complete


def test_a_ticket_that_is_not_good_ends_it_and_only_the_log_says_why() -> None:
    with pytest.raises(SaslError, match="GSS initiate failed: Ticket expired") as refused:
        said(server(Context(b"")).evaluate(b"bad"))

    assert not isinstance(refused.value, SaslAuthenticationError)


def test_data_where_none_is_expected_ends_it() -> None:
    answering = server(Context(b"proof"))
    said(answering.evaluate(b"ticket"))

    with pytest.raises(SaslError, match="Handshake expecting no response data"):
        said(answering.evaluate(b"more"))


@pytest.mark.parametrize(
    ("offer", "text"),
    [
        (SEAL + b"\x06\0\x10\0", "No common protection layer between client and server"),
        (SEAL, "No common protection layer"),
        (b"unsealed", "Final handshake failed: Token header"),
    ],
)
def test_a_client_does_not_take_just_any_offer(offer: bytes, text: str) -> None:
    asking = client(Context(b"ticket"))
    said(asking.evaluate(b""))

    with pytest.raises(SaslError, match=text):
        said(asking.evaluate(offer))


def test_a_client_without_a_ticket_says_why() -> None:
    def no_ticket() -> Context:
        raise GssError("Server kafka/nowhere@EXAMPLE.COM not found in Kerberos database")

    with pytest.raises(SaslError, match="GSS initiate failed: Server kafka/nowhere"):
        said(GssapiClient(no_ticket, InlineSlowWork()).evaluate(b""))
