"""SCRAM against the examples of RFC 7677 and of RFC 5802's extension to SHA-512, and against itself."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from random import Random

import pytest

from tidelog.model.pending import Pending
from tidelog.model.principal import Principal
from tidelog.model.slow_work import InlineSlowWork
from tidelog.security.sasl.exchange import SaslAuthenticationError, SaslError, UnexpectedTokenError
from tidelog.security.sasl.scram import ScramClient, ScramServer, TokenCredential, nonce
from tidelog.security.sasl.scram_credential import ScramCredential, ScramMechanism, derive_credential
from tidelog.security.sasl.scram_messages import ClientFirst, sasl_name, username_of

SHA_256 = ScramMechanism.SCRAM_SHA_256
SHA_512 = ScramMechanism.SCRAM_SHA_512
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


class Scripted:
    """A random source that gives the nonces of an example."""

    def __init__(self, text: str) -> None:
        self._text = text

    def getrandbits(self, _bits: int) -> int:
        return int(self._text, 36)


def credential(mechanism: ScramMechanism, password: str, iterations: int = 4096) -> ScramCredential:
    return derive_credential(mechanism, password, SALT, iterations)


def server(
    mechanism: ScramMechanism = SHA_256,
    users: dict[str, ScramCredential] | None = None,
    tokens: dict[str, TokenCredential] | None = None,
) -> ScramServer:
    known = {"user": credential(mechanism, "pencil")} if users is None else users
    return ScramServer(mechanism, known.get, (tokens or {}).get, Random(1))


def evaluated(side: ScramClient | ScramServer, token: bytes) -> bytes:
    outcome = side.evaluate(token)
    said = outcome.value if isinstance(outcome, Pending) else outcome
    assert isinstance(said, bytes)
    return said


def run(client: ScramClient, peer: ScramServer) -> None:
    token = b""
    for _ in range(2):
        token = evaluated(peer, evaluated(client, token))
    evaluated(client, token)


def test_the_server_verifies_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.security.sasl.scram.nonce", lambda _random: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    peer = server()

    first = peer.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    last = peer.evaluate(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )

    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert peer.principal == Principal("User", "user")
    assert peer.session_end_ms is None


def test_the_client_says_what_the_example_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.security.sasl.scram.nonce", lambda _random: "rOprNGfwEbeRWgbNEkqO")
    client = ScramClient(SHA_256, "user", "pencil", Random(1), InlineSlowWork())

    first = evaluated(client, b"")
    final = evaluated(client, b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    evaluated(client, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")

    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert final.endswith(b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert client.is_complete


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize("name", ["user", "a,b=c", "=2C", "=", "ä"])
def test_both_sides_agree(mechanism: ScramMechanism, name: str) -> None:
    peer = server(mechanism, {name: credential(mechanism, "p ä")})
    client = ScramClient(mechanism, name, "p ä", Random(2), InlineSlowWork())
    if not name.isascii():
        # The grammar of RFC 5802 would allow it; Kafka's does not.
        with pytest.raises(SaslError):
            run(client, peer)
        return

    run(client, peer)

    assert peer.is_complete
    assert client.is_complete
    assert peer.principal.name == name


def test_a_token_is_proved_like_a_password_and_stands_for_its_owner() -> None:
    tokens: dict[str, TokenCredential] = {"id-1": (credential(SHA_512, "hmac"), Principal("User", "owner"), 5000)}
    peer = server(SHA_512, {}, tokens)

    run(ScramClient(SHA_512, "id-1", "hmac", Random(2), InlineSlowWork(), is_token=True), peer)

    assert peer.principal == Principal("User", "owner", token_authenticated=True)
    assert peer.session_end_ms == 5000


def test_what_a_token_is_checked_against_may_have_to_be_derived_first() -> None:
    later: Pending[TokenCredential | None] = Pending()
    peer = ScramServer(SHA_256, lambda _user: None, lambda _token_id: later, Random(1))
    client = ScramClient(SHA_256, "id-1", "hmac", Random(2), InlineSlowWork(), is_token=True)

    challenge = peer.evaluate(evaluated(client, b""))
    assert isinstance(challenge, Pending)
    later.complete((credential(SHA_256, "hmac"), Principal("User", "owner"), 5000))

    assert isinstance(challenge.value, bytes)
    evaluated(client, evaluated(peer, evaluated(client, challenge.value)))
    assert client.is_complete


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (b"", "Invalid SCRAM client first message format"),
        (b"y,,n=user,r=abc", "Invalid SCRAM client first message format"),
        (b"p=tls-unique,,n=user,r=abc", "Invalid SCRAM client first message format"),
        (b"n,,n=,r=abc", "Invalid SCRAM client first message format"),
        (b"n,,n=user,r=", "Invalid SCRAM client first message format"),
        (b"n,,n=us\0er,r=abc", "Invalid SCRAM client first message format"),
        (b"n,,n=us\xc3\xa4er,r=abc", "Invalid SCRAM client first message format"),
        (b"n,,n=us=2Der,r=abc", "Invalid SCRAM client first message format"),
        (b"n,,n=" + b"a" * 16_384 + b",r=abc", "Invalid SCRAM client first message format"),
        (b"n,,n=nobody,r=abc", "Authentication failed: Invalid user credentials"),
        (b"n,,n=user,r=abc,tokenauth=true", "Token Authentication failed: Invalid tokenId"),
        (b"n,,n=user,r=abc,tokenauth=TRUE", "Token Authentication failed: Invalid tokenId"),
    ],
)
def test_a_client_first_message_that_is_not_taken(token: bytes, problem: str) -> None:
    peer = server()

    with pytest.raises(SaslError) as refused:
        peer.evaluate(token)

    assert str(refused.value) == problem
    assert not isinstance(refused.value, SaslAuthenticationError)
    with pytest.raises(SaslAuthenticationError, match="Sasl server state FAILED"):
        peer.evaluate(b"n,,n=user,r=abc")


def test_another_authorization_id_is_refused_with_its_text() -> None:
    server().evaluate(b"n,a=user,n=user,r=abc")

    with pytest.raises(SaslAuthenticationError, match="authorization id that is different from username"):
        server().evaluate(b"n,a=root,n=user,r=abc")


def test_a_credential_with_too_few_iterations_is_refused() -> None:
    with pytest.raises(SaslError, match="Iterations 4095 is less than the minimum 4096 for SCRAM-SHA-256"):
        server(users={"user": credential(SHA_256, "pencil", 4095)}).evaluate(b"n,,n=user,r=abc")


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda final: final.replace(b"r=", b"r=x"), "Invalid client nonce"),
        (lambda final: final.replace(b"c=biws", b"c=eSws"), "Invalid client credentials"),
        (lambda final: final[:-8] + b"AAAAAAA=", "Invalid client credentials"),
        (lambda final: final + b"x", "Invalid SCRAM client final message format"),
        (lambda _final: b"", "Invalid SCRAM client final message format"),
    ],
)
def test_a_proof_that_is_not_one(spoil: Callable[[bytes], bytes], problem: str) -> None:
    peer = server()
    client = ScramClient(SHA_256, "user", "pencil", Random(2), InlineSlowWork())
    final = evaluated(client, evaluated(peer, evaluated(client, b"")))

    with pytest.raises(SaslError, match=problem):
        peer.evaluate(spoil(final))

    assert not peer.is_complete


def test_a_proof_of_another_length_ends_it_as_in_kafka() -> None:
    peer = server()
    first = evaluated(peer, b"n,,n=user,r=abc")

    with pytest.raises(UnexpectedTokenError):
        peer.evaluate(b"c=biws," + first.split(b",")[0] + b",p=AAAA")


def test_a_wrong_password_is_found_by_the_proof() -> None:
    with pytest.raises(SaslError, match="Invalid client credentials"):
        run(ScramClient(SHA_256, "user", "pen", Random(2), InlineSlowWork()), server())


def test_a_reserved_extension_is_never_proved() -> None:
    peer = server()
    said = ClientFirst("user", "abc")
    peer.evaluate(b"n,,m=x," + said.bare.encode())

    with pytest.raises(SaslError):
        peer.evaluate(b"c=biws,r=abc,p=" + b"A" * 43 + b"=")


@pytest.mark.parametrize(
    ("server_first", "problem"),
    [
        (b"r=other,s=QSXC,i=4096", "Invalid server nonce"),
        (b"%s,s=QSXC,i=4095", "less than the minimum"),
        (b"%s,s=QSXC,i=0", "invalid iterations"),
        (b"%s,s=QSXC,i=99999999999", "invalid iterations"),
        (b"%s,s=QSXC,i=2147483647", "is more than"),
        (b"%s,s=QSX,i=4096", "Invalid SCRAM server first message format"),
    ],
)
def test_a_client_does_not_take_everything_from_a_server(server_first: bytes, problem: str) -> None:
    client = ScramClient(SHA_256, "user", "pencil", Random(2), InlineSlowWork())
    own = evaluated(client, b"").split(b",")[3] + b"x"

    with pytest.raises(SaslError, match=problem):
        client.evaluate(server_first.replace(b"%s", own))


@pytest.mark.parametrize("last", [b"v=AAAA", b"e=other-error", b"nonsense"])
def test_a_client_does_not_believe_a_server_that_does_not_know_the_password(last: bytes) -> None:
    peer = server()
    client = ScramClient(SHA_256, "user", "pencil", Random(2), InlineSlowWork())
    evaluated(peer, evaluated(client, evaluated(peer, evaluated(client, b""))))

    with pytest.raises(SaslError):
        client.evaluate(last)

    assert not client.is_complete


def test_nonces_are_130_bits_to_the_base_of_36() -> None:
    assert nonce(Scripted("hello0")) == "hello0"
    assert nonce(Scripted("0")) == "0"
    assert len({nonce(Random(seed)) for seed in range(100)}) == 100


@pytest.mark.parametrize("name", ["a", "a=b", "a,b", "=2C", "=3D,="])
def test_names_are_escaped_and_back(name: str) -> None:
    assert username_of(sasl_name(name)) == name
