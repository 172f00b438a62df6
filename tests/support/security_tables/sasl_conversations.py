"""Conversations in which clients prove who they are, or fail to: every state with every request, bent tokens and sizes.

    for label, notes in conversations(addresses): ...       what the node said in each

Each is a function of a `SaslTalk`; those of `REAUTHENTICATIONS` are held on the listener whose sessions end.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator

from tests.support.security_tables.sasl_talk import (
    CLIENT_NONCE,
    SaslTalk,
    plain_token,
    scram_final,
    unsecured_token,
)
from tests.support.security_tables.secured_node import (
    PASSWORDS,
    RECEIVED_BYTES_MAX,
    SCRAM_MECHANISMS,
    SCRAM_PASSWORDS,
    Addresses,
)
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tidelog.wire.schema import Request

Conversation = Callable[[SaslTalk], None]

ALICE = plain_token("alice", PASSWORDS["alice"])
SCRAM = "SCRAM-SHA-256"
VERSIONS_0 = ApiVersionsRequest(client_software_name="", client_software_version="")
VERSIONS_3 = ApiVersionsRequest(client_software_name="client", client_software_version="1.0")
METADATA = MetadataRequest(
    topics=[MetadataRequestTopic(topic_id=ZERO_UUID, name="no-such-topic")], include_topic_authorized_operations=False
)
FIND = FindCoordinatorRequest(key="", key_type=0, coordinator_keys=["g"])
# Kafka lets nobody begin to authenticate again twice within a second.
AGAIN_AFTER_S = 1.1
NEVER = 4_000_000_000

_REQUESTS: dict[str, tuple[Request, int]] = {
    "ApiVersions v0": (VERSIONS_0, 0),
    "ApiVersions v3": (VERSIONS_3, 3),
    "SaslHandshake v0": (SaslHandshakeRequest(mechanism="PLAIN"), 0),
    "SaslHandshake v1": (SaslHandshakeRequest(mechanism="PLAIN"), 1),
    "SaslAuthenticate v0": (SaslAuthenticateRequest(auth_bytes=ALICE), 0),
    "SaslAuthenticate v2": (SaslAuthenticateRequest(auth_bytes=ALICE), 2),
    "Metadata v12": (METADATA, 12),
    "FindCoordinator v4": (FIND, 4),
}


def _begun(talk: SaslTalk) -> None:
    """Nothing has been said."""


def _after_versions(talk: SaslTalk) -> None:
    talk.ask(VERSIONS_3, 3)


def _after_versions_twice(talk: SaslTalk) -> None:
    talk.ask(VERSIONS_3, 3)
    talk.ask(VERSIONS_3, 3)


def _after_handshake(talk: SaslTalk) -> None:
    talk.handshake("PLAIN")


def _after_scram_first(talk: SaslTalk) -> None:
    talk.handshake(SCRAM)
    talk.authenticate(f"n,,n=alice,r={CLIENT_NONCE}".encode())


def _authenticated(talk: SaslTalk) -> None:
    talk.plain("alice", PASSWORDS["alice"])


def _refused(talk: SaslTalk) -> None:
    talk.plain("alice", "wrong")


_STATES: dict[str, Conversation] = {
    "first": _begun,
    "after ApiVersions": _after_versions,
    "after a handshake": _after_handshake,
    "within SCRAM": _after_scram_first,
    "authenticated": _authenticated,
    "refused": _refused,
}


def _state_and_request(state: Conversation, request: Request, version: int) -> Conversation:
    def held(talk: SaslTalk) -> None:
        state(talk)
        talk.ask(request, version)
        talk.probe()

    return held


def _of_token(mechanism: str, token: bytes, version: int = 2) -> Conversation:
    def held(talk: SaslTalk) -> None:
        talk.handshake(mechanism)
        talk.authenticate(token, version)
        talk.probe()

    return held


def _of_bytes(state: Conversation, data: bytes) -> Conversation:
    """Bytes that may be no request, then another request: an answer to that, or the end."""

    def held(talk: SaslTalk) -> None:
        state(talk)
        talk.send(data)
        talk.probe()

    return held


def _of_handshake(mechanism: str, version: int) -> Conversation:
    def held(talk: SaslTalk) -> None:
        talk.handshake(mechanism, version)
        talk.probe()

    return held


def _of_bare(mechanism: str, token: bytes) -> Conversation:
    def held(talk: SaslTalk) -> None:
        talk.handshake(mechanism, 0)
        talk.bare(token)
        talk.probe()

    return held


def _scram(mechanism: str, user: str, password: str, *, gs2: str = "n,,", channel: str = "biws") -> Conversation:
    def held(talk: SaslTalk) -> None:
        talk.handshake(mechanism)
        first = f"n={user},r={CLIENT_NONCE}"
        told = talk.authenticate((gs2 + first).encode())
        if told is not None and not told.error_code:
            talk.authenticate(scram_final(mechanism, first, bytes(told.auth_bytes).decode(), password, channel=channel))
        talk.probe()

    return held


def _scram_other_nonce(talk: SaslTalk) -> None:
    talk.handshake(SCRAM)
    first = f"n=alice,r={CLIENT_NONCE}"
    told = talk.authenticate(b"n,," + first.encode())
    talk.authenticate(
        scram_final(SCRAM, first, bytes(told.auth_bytes).decode(), SCRAM_PASSWORDS["alice"], nonce=CLIENT_NONCE)
    )
    talk.probe()


def _scram_bare(talk: SaslTalk) -> None:
    talk.handshake(SCRAM, 0)
    first = f"n=alice,r={CLIENT_NONCE}"
    told = talk.bare(b"n,," + first.encode())
    assert told is not None
    talk.bare(scram_final(SCRAM, first, told.decode(), SCRAM_PASSWORDS["alice"]))
    talk.probe()


def _scram_then(data: bytes) -> Conversation:
    """The first message as it should be, then anything."""

    def held(talk: SaslTalk) -> None:
        _after_scram_first(talk)
        talk.authenticate(data)
        talk.probe()

    return held


def _after_the_end(talk: SaslTalk) -> None:
    """One more token than the mechanism needs."""
    talk.scram(SCRAM, "alice", SCRAM_PASSWORDS["alice"])
    talk.authenticate(b"")
    talk.probe()


def _pipelined(talk: SaslTalk) -> None:
    """Handshake, token and a request in one piece."""
    talk.send(
        talk.frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        + talk.frame(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
        + talk.frame(VERSIONS_3, 3)
    )
    for _ in range(3):
        talk.answer()


def _pipelined_refused(talk: SaslTalk) -> None:
    """What follows a wrong password is not looked at."""
    talk.send(
        talk.frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        + talk.frame(SaslAuthenticateRequest(auth_bytes=plain_token("alice", "wrong")), 2)
        + talk.frame(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
    )
    for _ in range(3):
        if talk.answer() is None:
            return


def _pipelined_bare(talk: SaslTalk) -> None:
    talk.handshake("PLAIN", 0)
    talk.send(struct.pack(">i", len(ALICE)) + ALICE + talk.frame(VERSIONS_0, 0))
    token = talk.received()
    talk.notes.append(f"token {token!r}")
    talk.answer()


def _byte_by_byte(talk: SaslTalk) -> None:
    for each in talk.frame(SaslHandshakeRequest(mechanism="PLAIN"), 1):
        talk.send(bytes([each]))
    talk.answer()
    for each in talk.frame(SaslAuthenticateRequest(auth_bytes=ALICE), 1):
        talk.send(bytes([each]))
    talk.answer()
    talk.probe()


def _unsupported(key: int, version: int, state: Conversation = _begun) -> Conversation:
    """A request of an API's version that does not exist; ApiVersions answers it in v0."""

    def held(talk: SaslTalk) -> None:
        state(talk)
        talk._asked[77] = (18, 0)
        talk.sized(struct.pack(">hhih", key, version, 77, -1) + b"\0")
        talk.answer()
        talk.probe()

    return held


def _oauth(token: str, *, gs2: str = "n,,", extensions: str = "", closing: bytes | None = b"\x01") -> Conversation:
    def held(talk: SaslTalk) -> None:
        talk.handshake("OAUTHBEARER")
        told = talk.authenticate(f"{gs2}\x01auth=Bearer {token}\x01{extensions}\x01".encode())
        if told is not None and not told.error_code and bytes(told.auth_bytes) and closing is not None:
            talk.authenticate(closing)
        talk.probe()

    return held


def _tokens() -> Iterator[tuple[str, Conversation]]:
    secret = PASSWORDS["alice"]
    for label, token in {
        "right": ALICE,
        "with its own name as authzid": plain_token("alice", secret, "alice"),
        "with another authzid": plain_token("alice", secret, "bob"),
        "wrong password": plain_token("alice", "wrong"),
        "longer password": plain_token("alice", secret + "x"),
        "unknown user": plain_token("nobody", secret),
        "no user": plain_token("", secret),
        "no password": plain_token("alice", ""),
        "empty": b"",
        "one nul": b"\0",
        "two parts": b"alice\0" + secret.encode(),
        "four parts": ALICE + b"\0x",
        "four parts, last empty": ALICE + b"\0",
        "not UTF-8": b"\0al\xff\xfeice\0x",
        "only nuls": b"\0\0\0\0",
        "other case": plain_token("Alice", secret),
        "blank behind": plain_token("alice ", secret),
    }.items():
        yield f"PLAIN: {label}", _of_token("PLAIN", token)
    yield "PLAIN v0: right", _of_token("PLAIN", ALICE, 0)
    yield "PLAIN v1: wrong", _of_token("PLAIN", plain_token("alice", "wrong"), 1)
    yield "bare PLAIN: right", _of_bare("PLAIN", ALICE)
    yield "bare PLAIN: wrong", _of_bare("PLAIN", plain_token("alice", "wrong"))
    yield "bare PLAIN: empty", _of_bare("PLAIN", b"")


def _scrams() -> Iterator[tuple[str, Conversation]]:
    for mechanism in SCRAM_MECHANISMS:
        yield f"{mechanism}: right", _scram(mechanism, "alice", SCRAM_PASSWORDS["alice"])
        yield f"{mechanism}: wrong password", _scram(mechanism, "alice", "wrong")
    weird = SCRAM_PASSWORDS["we,ird=name"]
    yield "SCRAM: unknown user", _scram(SCRAM, "nobody", "x")
    yield "SCRAM: escaped name", _scram(SCRAM, "we=2Cird=3Dname", weird)
    yield "SCRAM: wrongly escaped name", _scram(SCRAM, "we=2cird=3dname", weird)
    yield (
        "SCRAM: own authzid",
        _scram(SCRAM, "alice", SCRAM_PASSWORDS["alice"], gs2="n,a=alice,", channel="bixhPWFsaWNlLA=="),
    )
    yield "SCRAM: other authzid", _scram(SCRAM, "alice", SCRAM_PASSWORDS["alice"], gs2="n,a=bob,")
    yield "SCRAM: channel binding wished", _scram(SCRAM, "alice", SCRAM_PASSWORDS["alice"], gs2="y,,", channel="eSws")
    yield "SCRAM: channel binding", _scram(SCRAM, "alice", SCRAM_PASSWORDS["alice"], gs2="p=tls-unique,,")
    yield "SCRAM: other channel at the end", _scram(SCRAM, "alice", SCRAM_PASSWORDS["alice"], channel="eSws")
    yield "SCRAM: other nonce at the end", _scram_other_nonce
    yield "bare SCRAM: right", _scram_bare
    yield "SCRAM: a token too many", _after_the_end
    for label, token in {
        "empty": b"",
        "no nonce": b"n,,n=alice",
        "empty nonce": b"n,,n=alice,r=",
        "no name": f"n,,r={CLIENT_NONCE}".encode(),
        "empty name": f"n,,n=,r={CLIENT_NONCE}".encode(),
        "reserved m": f"n,,m=x,n=alice,r={CLIENT_NONCE}".encode(),
        "an extension": f"n,,n=alice,r={CLIENT_NONCE},x=y".encode(),
        "a token that is none": f"n,,n=alice,r={CLIENT_NONCE},tokenauth=true".encode(),
        "no gs2": f"n=alice,r={CLIENT_NONCE}".encode(),
        "not UTF-8": b"n,,n=\xff\xfe,r=abc",
        "garbage": b"\x00\x01\x02garbage",
        "a final one": b"c=biws,r=x,p=eA==",
    }.items():
        yield f"SCRAM first: {label}", _of_token(SCRAM, token)
    for label, token in {
        "empty": b"",
        "no proof": b"c=biws,r=x",
        "not base64": b"c=biws,r=x,p=***",
        "short proof": b"c=biws,r=x,p=eA==",
        "garbage": b"\xff\xff",
        "the first one again": f"n,,n=alice,r={CLIENT_NONCE}".encode(),
    }.items():
        yield f"SCRAM final: {label}", _scram_then(token)


def _bearers() -> Iterator[tuple[str, Conversation]]:
    right = unsecured_token({"sub": "alice", "exp": NEVER})
    yield "OAUTHBEARER: expired", _oauth(unsecured_token({"sub": "alice", "exp": 1_000_000}))
    yield "OAUTHBEARER: no exp", _oauth(unsecured_token({"sub": "alice"}))
    yield "OAUTHBEARER: no sub", _oauth(unsecured_token({"exp": NEVER}))
    yield "OAUTHBEARER: no token", _oauth("x")
    yield "OAUTHBEARER: wrong last word", _oauth("x.y.z", closing=b"\x02")
    yield "OAUTHBEARER: other authzid", _oauth(right, gs2="n,a=bob,")
    yield "OAUTHBEARER: extension named auth", _oauth(right, extensions="auth=x\x01")
    yield "OAUTHBEARER: extension with a digit", _oauth(right, extensions="a1=x\x01")
    yield "OAUTHBEARER: garbage", _of_token("OAUTHBEARER", b"garbage")
    yield "OAUTHBEARER: empty", _of_token("OAUTHBEARER", b"")


def _frames() -> Iterator[tuple[str, Conversation]]:
    for name, state in {"first": _begun, "after a handshake": _after_handshake}.items():
        yield f"{name}: a size below zero", _of_bytes(state, struct.pack(">i", -1))
        yield f"{name}: the least size of all", _of_bytes(state, struct.pack(">i", -(2**31)))
        yield f"{name}: size zero", _of_bytes(state, struct.pack(">i", 0))
        yield f"{name}: a size beyond the limit", _of_bytes(state, struct.pack(">i", RECEIVED_BYTES_MAX + 1))
        yield f"{name}: the greatest size", _of_bytes(state, struct.pack(">i", 2**31 - 1))
        yield f"{name}: three bytes", _of_bytes(state, b"\0\0\0\x03abc")
        yield f"{name}: HTTP", _of_bytes(state, b"GET / HTTP/1.1\r\n\r\n")
        yield f"{name}: TLS", _of_bytes(state, bytes.fromhex("160301020001000001fc0303") + bytes(500))
        yield f"{name}: an unknown API", _unsupported(999, 0, state)
        yield f"{name}: ApiVersions v99", _unsupported(18, 99, state)
        yield f"{name}: SaslHandshake v9", _unsupported(17, 9, state)
        yield f"{name}: SaslAuthenticate v9", _unsupported(36, 9, state)
        yield f"{name}: Metadata v99", _unsupported(3, 99, state)
    yield "a token as long as may be", _of_token("PLAIN", b"\0alice\0" + b"x" * (RECEIVED_BYTES_MAX - 100))
    yield "a token that is too long", _of_token("PLAIN", b"\0alice\0" + b"x" * (RECEIVED_BYTES_MAX + 1))
    yield "in one piece", _pipelined
    yield "in one piece, refused", _pipelined_refused
    yield "in one piece, bare", _pipelined_bare
    yield "byte by byte", _byte_by_byte
    yield "ApiVersions twice", _state_and_request(_after_versions_twice, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    yield (
        "ApiVersions with a bad name",
        _state_and_request(_begun, ApiVersionsRequest(client_software_name="a b", client_software_version="1"), 3),
    )


def _handshakes() -> Iterator[tuple[str, Conversation]]:
    for mechanism in ("GSSAPI", "plain", "", "SCRAM-SHA-1", "PLAIN ", "X" * 3000):
        for version in (0, 1):
            yield f"handshake v{version} {mechanism[:20]!r}", _of_handshake(mechanism, version)


def _again(mechanism: str, token: bytes) -> Conversation:
    """Authenticates as alice, and then once more."""

    def held(talk: SaslTalk) -> None:
        talk.plain("alice", PASSWORDS["alice"])
        talk.handshake(mechanism)
        talk.authenticate(token)
        talk.probe()

    return held


def _again_then(request: Request, version: int) -> Conversation:
    """Another request in the midst of it."""

    def held(talk: SaslTalk) -> None:
        talk.plain("alice", PASSWORDS["alice"])
        talk.handshake("PLAIN")
        talk.ask(request, version)
        talk.probe()

    return held


def _again_scram(talk: SaslTalk) -> None:
    talk.scram(SCRAM, "alice", SCRAM_PASSWORDS["alice"])
    talk.scram(SCRAM, "alice", SCRAM_PASSWORDS["alice"])
    talk.probe()


def _again_old(talk: SaslTalk) -> None:
    """A client that is too old to have been told of the session's end."""
    talk.plain("alice", PASSWORDS["alice"], version=0)
    talk.handshake("PLAIN")
    talk.authenticate(ALICE, 0)
    talk.probe()


def _again_bare(token: bytes) -> Conversation:
    """With bare tokens the second time."""

    def held(talk: SaslTalk) -> None:
        talk.plain("alice", PASSWORDS["alice"])
        talk.handshake("PLAIN", 0)
        talk.bare(token)
        talk.probe()

    return held


def _again_and_again(talk: SaslTalk) -> None:
    """The first time is at any time, the next one not within a second."""
    talk.plain("alice", PASSWORDS["alice"])
    talk.plain("alice", PASSWORDS["alice"])
    talk.handshake("PLAIN")
    talk.probe()
    time.sleep(AGAIN_AFTER_S)
    talk.plain("alice", PASSWORDS["alice"])
    talk.probe()


def _again_after_bare(talk: SaslTalk) -> None:
    talk.handshake("PLAIN", 0)
    talk.bare(ALICE)
    talk.plain("alice", PASSWORDS["alice"])
    talk.probe()


def _bearer_session(talk: SaslTalk) -> None:
    """The end of the session is the smaller one."""
    talk.handshake("OAUTHBEARER")
    token = unsecured_token({"sub": "alice", "exp": NEVER})
    talk.authenticate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    talk.probe()


CONVERSATIONS: dict[str, Conversation] = {
    **{
        f"{state}: {request}": _state_and_request(before, *asked)
        for state, before in _STATES.items()
        for request, asked in _REQUESTS.items()
    },
    **dict(_handshakes()),
    **dict(_tokens()),
    **dict(_scrams()),
    **dict(_bearers()),
    **dict(_frames()),
}

REAUTHENTICATIONS: dict[str, Conversation] = {
    "again: as before": _again("PLAIN", ALICE),
    "again: wrong password": _again("PLAIN", plain_token("alice", "wrong")),
    "again: somebody else": _again("PLAIN", plain_token("bob", PASSWORDS["bob"])),
    "again: another mechanism": _again(SCRAM, f"n,,n=alice,r={CLIENT_NONCE}".encode()),
    "again: an unknown mechanism": _again("GSSAPI", b"x"),
    "again: Metadata instead of a token": _again_then(METADATA, 12),
    "again: ApiVersions instead of a token": _again_then(VERSIONS_3, 3),
    "again: SCRAM": _again_scram,
    "again: an old client": _again_old,
    "again: a bare token": _again_bare(ALICE),
    "again: a wrong bare token": _again_bare(plain_token("alice", "wrong")),
    "again: after a bare token": _again_after_bare,
    "again: and again": _again_and_again,
    "a token without a handshake": _state_and_request(_authenticated, SaslAuthenticateRequest(auth_bytes=ALICE), 2),
    "the session of a bearer": _bearer_session,
}


def conversations(addresses: Addresses) -> Iterator[tuple[str, list[str]]]:
    """What a node says in each."""
    for held, address in ((CONVERSATIONS, addresses.sasl), (REAUTHENTICATIONS, addresses.reauth)):
        for label, conversation in held.items():
            with SaslTalk(address) as talk:
                try:
                    conversation(talk)
                except TimeoutError:
                    talk.notes.append("silent")
                yield label, talk.notes
