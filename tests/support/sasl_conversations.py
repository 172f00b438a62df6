"""What is said to a SASL listener, state by state, and what is answered: data, to be replayed at any node, ours and Kafka's.

A conversation is a name, the mechanisms of the listener, the frames that are sent and what comes back. Frames and answers are
without their size. One frame is sent, then its answer is waited for, if there is one left in the list; a frame whose answer is
`SILENCE` is followed by the next at once. `ends`: whether the node closes the connection after all of it.

An answer is bytes, or the `Start` of them where the rest differs from node to node (what ApiVersions announces, a nonce).
The listener has the users of `PLAIN_USERS`; for SCRAM the same with the salt and iterations of `SCRAM_SALT`, and OAUTHBEARER
without a validator.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.model.ids import ZERO_UUID
from tidelog.security.sasl.unsecured_jws import unsecured_token
from tidelog.wire.codec import encode
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest

PLAIN_USERS = {"alice": "alice's secret", "bob": "b"}
SCRAM_SALT = b"some salt"
SCRAM_ITERATIONS = 4096

ALL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ONLY_PLAIN = ("PLAIN",)

CORRELATION_ID = 7
_ID = struct.pack(">i", CORRELATION_ID)


class Start(NamedTuple):
    """How an answer begins."""

    prefix: bytes


SILENCE = None
Answer = bytes | Start | None


class Conversation(NamedTuple):
    name: str
    mechanisms: tuple[str, ...]
    frames: tuple[bytes, ...]
    answers: tuple[Answer, ...]
    ends: bool


# Requests.


def request(key: int, version: int, body: bytes, *, flexible: bool = False, client_id: bytes | None = b"c") -> bytes:
    """A request of any key and version, whether there are such or not."""
    named = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hh", key, version) + _ID + named + (b"\0" if flexible else b"") + body


def api_versions(version: int = 3, name: str = "tool") -> bytes:
    flexible = version >= 3
    body = encode(ApiVersionsRequest(client_software_name=name, client_software_version="1"), min(version, 3))
    return request(18, version, body, flexible=flexible)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return request(17, version, encode(SaslHandshakeRequest(mechanism=mechanism), 1))


def authenticate(token: bytes, version: int = 2) -> bytes:
    body = encode(SaslAuthenticateRequest(auth_bytes=token), min(version, 2))
    return request(36, version, body, flexible=version >= 2)


def metadata() -> bytes:
    topic = MetadataRequestTopic(topic_id=ZERO_UUID, name="t")
    body = encode(
        MetadataRequest(
            topics=[topic],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        ),
        12,
    )
    return request(3, 12, body, flexible=True)


LIST_GROUPS = request(16, 2, b"")
GOOD = b"\0alice\0alice's secret"
WRONG = b"\0alice\0wrong"

# Answers.

VERSIONS = Start(_ID + b"\0\0")
UNSUPPORTED_VERSIONS = Start(_ID + struct.pack(">hihhh", 35, 1, 18, 0, 4))
INVALID_VERSIONS = Start(_ID + struct.pack(">h", 42))


def strings(*texts: str) -> bytes:
    return struct.pack(">i", len(texts)) + b"".join(struct.pack(">h", len(each)) + each.encode() for each in texts)


# In the order of Java's HashSet.
LISTED = {ALL: ("PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER"), ONLY_PLAIN: ONLY_PLAIN}


def shaken(mechanisms: tuple[str, ...] = ONLY_PLAIN, error: int = 0) -> bytes:
    return _ID + struct.pack(">h", error) + strings(*LISTED[mechanisms])


ILLEGAL_HANDSHAKE = _ID + struct.pack(">hi", 34, 0)


def authenticated(token: bytes = b"", version: int = 2, *, error: int = 0, text: str = "") -> bytes:
    """With a session that never ends."""
    body = encode(
        SaslAuthenticateResponse(error_code=error, error_message=text, auth_bytes=token, session_lifetime_ms=0), version
    )
    return _ID + (b"\0" if version >= 2 else b"") + body


def refused(text: str, version: int = 2) -> bytes:
    return authenticated(version=version, error=58, text=text)


def uniform(mechanism: str) -> str:
    return f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"


INVALID_PASSWORD = "Authentication failed: Invalid username or password"
AFTERWARDS = authenticated(error=34, text="SaslAuthenticate request received after successful authentication")


def oauth(token: str, authzid: str = "") -> bytes:
    named = f"a={authzid}" if authzid else ""
    return f"n,{named},\x01auth=Bearer {token}\x01\x01".encode()


def good_token() -> str:
    """Without `iat`, so that it does not matter whose clock is ahead."""
    return unsecured_token({"sub": "alice", "exp": time.time() + 3600})


BAD_TOKEN = unsecured_token({"sub": "alice", "exp": 1})
INVALID_TOKEN = b'{"status":"invalid_token"}'
_OTHER_ID_TEXT = "Authentication failed: Client requested an authorization id that is different from username"

# What may be said in a state that takes none of it: it ends the connection without a word.
UNREADABLE = {
    "nothing at all": b"",
    "one byte": b"\0",
    "a key alone": b"\0\x11",
    "a GSSAPI token of old": b"\x60\x82\x02\x01",
    "an HTTP request": b"GET / HTTP/1.1\r\n",
    "Metadata": metadata(),
    "ListGroups": LIST_GROUPS,
    "an API that does not exist": request(9999, 0, b""),
    "SaslHandshake in a version that does not exist": handshake(version=2),
    "SaslHandshake cut short": handshake()[:-3],
    "SaslAuthenticate before SaslHandshake": authenticate(GOOD),
}


def conversations() -> Iterator[Conversation]:
    yield from _before_the_handshake()
    yield from _handshakes()
    yield from _plain()
    yield from _bare_tokens()
    yield from _scram()
    yield from _oauthbearer()
    yield from _among_the_tokens()
    yield from _afterwards()


def _before_the_handshake() -> Iterator[Conversation]:
    for what, frame in UNREADABLE.items():
        yield Conversation(f"first: {what}", ONLY_PLAIN, (frame,), (), True)
        yield Conversation(f"after ApiVersions: {what}", ONLY_PLAIN, (api_versions(), frame), (VERSIONS,), True)
    for version in (0, 1, 2, 3, 4):
        yield Conversation(f"ApiVersions v{version}", ONLY_PLAIN, (api_versions(version),), (VERSIONS,), False)
    again = (api_versions(99), api_versions(3), handshake())
    yield Conversation(
        "ApiVersions in an unknown version, then in one that is known, then SaslHandshake",
        ONLY_PLAIN,
        again,
        (UNSUPPORTED_VERSIONS, VERSIONS, shaken()),
        False,
    )
    yield Conversation(
        "ApiVersions with a name that is none, then with one",
        ONLY_PLAIN,
        (api_versions(name="-"), api_versions()),
        (INVALID_VERSIONS, VERSIONS),
        False,
    )
    yield Conversation("ApiVersions twice", ONLY_PLAIN, (api_versions(), api_versions()), (VERSIONS,), True)
    yield Conversation("ApiVersions cut short", ONLY_PLAIN, (api_versions()[:-3],), (), True)
    unsupported_again = (api_versions(), api_versions(99))
    yield Conversation("ApiVersions, then in an unknown version", ONLY_PLAIN, unsupported_again, (VERSIONS,), True)


def _handshakes() -> Iterator[Conversation]:
    for mechanisms in (ONLY_PLAIN, ALL):
        for version in (0, 1):
            title = f"SaslHandshake v{version} with {len(mechanisms)} mechanisms"
            yield Conversation(title, mechanisms, (handshake(version=version),), (shaken(mechanisms),), False)
            yield Conversation(
                f"{title}, for another one",
                mechanisms,
                (handshake("GSSAPI", version),),
                (shaken(mechanisms, 33),),
                True,
            )
    yield Conversation("a mechanism in lower case", ONLY_PLAIN, (handshake("plain"),), (shaken(error=33),), True)
    yield Conversation("no mechanism", ONLY_PLAIN, (handshake(""),), (shaken(error=33),), True)


def _plain() -> Iterator[Conversation]:
    first = (handshake(), shaken())
    for version in (0, 1, 2):
        yield Conversation(
            f"PLAIN in SaslAuthenticate v{version}",
            ONLY_PLAIN,
            (api_versions(), handshake(), authenticate(GOOD, version)),
            (VERSIONS, shaken(), authenticated(version=version)),
            False,
        )
        yield Conversation(
            f"a wrong password in SaslAuthenticate v{version}",
            ONLY_PLAIN,
            (first[0], authenticate(WRONG, version)),
            (first[1], refused(INVALID_PASSWORD, version)),
            True,
        )
    for what, token, text in (
        ("an empty token", b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("two parts", b"alice\0x", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        ("five parts", b"\0alice\0x\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("no user", b"\0\0x", "Authentication failed: username not specified"),
        ("no password", b"\0alice\0", "Authentication failed: password not specified"),
        ("an unknown user", b"\0nobody\0x", INVALID_PASSWORD),
        ("another user's id", b"bob" + GOOD, _OTHER_ID_TEXT),
    ):
        frames = (first[0], authenticate(token))
        yield Conversation(f"PLAIN with {what}", ONLY_PLAIN, frames, (first[1], refused(text)), True)
    yield Conversation(
        "PLAIN with the user's own id",
        ONLY_PLAIN,
        (first[0], authenticate(b"alice" + GOOD)),
        (first[1], authenticated()),
        False,
    )


def _bare_tokens() -> Iterator[Conversation]:
    first = handshake(version=0)
    yield Conversation(
        "bare tokens, then ordinary requests",
        ONLY_PLAIN,
        (first, GOOD, api_versions()),
        (shaken(), b"", VERSIONS),
        False,
    )
    yield Conversation("a bare wrong password", ONLY_PLAIN, (first, WRONG), (shaken(),), True)
    yield Conversation("a bare token that is none", ONLY_PLAIN, (first, b"x"), (shaken(),), True)
    scram = handshake("SCRAM-SHA-256", 0)
    yield Conversation(
        "bare tokens of SCRAM",
        ALL,
        (scram, b"n,,n=alice,r=abc"),
        (shaken(ALL), Start(b"r=abc")),
        False,
    )
    yield Conversation("a bare token of an unknown user", ALL, (scram, b"n,,n=nobody,r=abc"), (shaken(ALL),), True)


def _scram() -> Iterator[Conversation]:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        first = handshake(mechanism)
        no = refused(uniform(mechanism))
        yield Conversation(
            f"{mechanism}: a known user",
            ALL,
            (first, authenticate(b"n,,n=alice,r=abc", 0)),
            (shaken(ALL), Start(_ID + b"\0\0\0\0")),
            False,
        )
        for what, token in (
            ("an unknown user", b"n,,n=nobody,r=abc"),
            ("an unknown token", b"n,,n=alice,r=abc,tokenauth=true"),
            ("channel binding", b"p=tls-unique,,n=alice,r=abc"),
            ("an empty token", b""),
            ("a name with a bad escape", b"n,,n=al=20ice,r=abc"),
        ):
            yield Conversation(f"{mechanism}: {what}", ALL, (first, authenticate(token)), (shaken(ALL), no), True)
        other = authenticate(b"n,a=bob,n=alice,r=abc")
        yield Conversation(
            f"{mechanism}: another user's id", ALL, (first, other), (shaken(ALL), refused(_OTHER_ID_TEXT)), True
        )
        for what, token in (
            ("another nonce", b"c=biws,r=other,p=AAAA"),
            ("a final message that is none", b"nonsense"),
        ):
            yield Conversation(
                f"{mechanism}: {what}",
                ALL,
                (first, authenticate(b"n,,n=alice,r=abc"), authenticate(token)),
                (shaken(ALL), Start(_ID + b"\0\0\0\1"), no),
                True,
            )


def _oauthbearer() -> Iterator[Conversation]:
    first = handshake("OAUTHBEARER")
    told = authenticated(INVALID_TOKEN)
    no = refused(uniform("OAUTHBEARER"))
    yield Conversation(
        "OAUTHBEARER: a token that has expired",
        ALL,
        (first, authenticate(oauth(BAD_TOKEN)), authenticate(b"\x01")),
        (shaken(ALL), told, refused(INVALID_TOKEN.decode())),
        True,
    )
    yield Conversation(
        "OAUTHBEARER: a good token after a bad one",
        ALL,
        (first, authenticate(oauth(BAD_TOKEN)), authenticate(oauth(good_token()))),
        (shaken(ALL), told, Start(_ID + b"\0\0\0\1\1")),
        False,
    )
    for what, token in (
        ("an empty token", b""),
        ("no refusal to ask about", b"\x01"),
        ("no auth", b"n,,\x01a=b\x01\x01"),
        ("an auth without a token", b"n,,\x01auth=Bearer\x01\x01"),
        ("a name with digits", b"n,,\x01auth=Bearer x\x01a1=b\x01\x01"),
    ):
        yield Conversation(f"OAUTHBEARER: {what}", ALL, (first, authenticate(token)), (shaken(ALL), no), True)
    basic = authenticate(b"n,,\x01auth=Basic x\x01\x01")
    yield Conversation("OAUTHBEARER: another scheme", ALL, (first, basic), (shaken(ALL),), True)
    other = authenticate(oauth(good_token(), "bob"))
    text = (
        "Authentication failed: Client requested an authorization id (bob) that is different from the token's principal"
        " name (alice)"
    )
    yield Conversation("OAUTHBEARER: another user's id", ALL, (first, other), (shaken(ALL), refused(text)), True)


def _among_the_tokens() -> Iterator[Conversation]:
    first = (handshake(), shaken())
    yield Conversation(
        "SaslHandshake twice",
        ONLY_PLAIN,
        (first[0], handshake()),
        (first[1], Start(_ID + struct.pack(">h", 34))),
        True,
    )
    yield Conversation(
        "ApiVersions among the tokens",
        ONLY_PLAIN,
        (first[0], api_versions()),
        (first[1], Start(_ID + struct.pack(">h", 34))),
        True,
    )
    yield Conversation(
        "ApiVersions in an unknown version among the tokens",
        ONLY_PLAIN,
        (first[0], api_versions(99)),
        (first[1], Start(_ID + struct.pack(">h", 34))),
        True,
    )
    yield Conversation(
        "ListGroups among the tokens",
        ONLY_PLAIN,
        (first[0], LIST_GROUPS),
        (first[1], Start(_ID + struct.pack(">ih", 0, 34))),
        True,
    )
    for what in ("nothing at all", "one byte", "a GSSAPI token of old", "an API that does not exist"):
        yield Conversation(f"among the tokens: {what}", ONLY_PLAIN, (first[0], UNREADABLE[what]), (first[1],), True)
    unknown = authenticate(GOOD, 3)
    yield Conversation("SaslAuthenticate v3", ONLY_PLAIN, (first[0], unknown), (first[1],), True)
    yield Conversation("SaslAuthenticate cut short", ONLY_PLAIN, (first[0], authenticate(GOOD)[:-9]), (first[1],), True)


def _afterwards() -> Iterator[Conversation]:
    frames, answers = (handshake(), authenticate(GOOD)), (shaken(), authenticated())
    yield Conversation(
        "ApiVersions afterwards, more than once",
        ONLY_PLAIN,
        (*frames, api_versions(), api_versions(0)),
        (*answers, VERSIONS, VERSIONS),
        False,
    )
    yield Conversation(
        "SaslHandshake afterwards", ONLY_PLAIN, (*frames, handshake()), (*answers, ILLEGAL_HANDSHAKE), False
    )
    yield Conversation(
        "SaslAuthenticate afterwards", ONLY_PLAIN, (*frames, authenticate(GOOD)), (*answers, AFTERWARDS), False
    )
    yield Conversation("an unknown API afterwards", ONLY_PLAIN, (*frames, request(9999, 0, b"")), answers, True)
