"""Sessions of SASL that end (KIP-368), over real sockets and on a clock that is moved."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from time import monotonic_ns, time_ns

import pytest

from tests.support.running_node import RunningNode
from tests.support.sasl_conversations import (
    GOOD,
    ILLEGAL_HANDSHAKE,
    VERSIONS,
    api_versions,
    authenticate,
    handshake,
    metadata,
    oauth,
)
from tests.support.sasl_node import counted, sasl_settings, token_of
from tests.support.sasl_peer import Peer
from tidelog import Admin
from tidelog.client.admin import QuotaEntity
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TimestampMs
from tidelog.wire.apis import ApiKey
from tidelog.wire.codec import decode
from tidelog.wire.frames import read_response
from tidelog.wire.messages.metadata import MetadataResponse
from tidelog.wire.messages.sasl import SaslAuthenticateResponse

SESSION_MS = 60_000


class MovedClock:
    """The machine's, some seconds ahead."""

    def __init__(self) -> None:
        self.ahead_s = 0

    def now_ms(self) -> TimestampMs:
        return TimestampMs(time_ns() // 1_000_000 + self.ahead_s * 1000)

    def monotonic_ms(self) -> int:
        return self.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return monotonic_ns() + self.ahead_s * 1_000_000_000


@pytest.fixture(scope="module")
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, clock: MovedClock) -> Iterator[RunningNode]:
    settings = sasl_settings(
        ("PLAIN", "OAUTHBEARER"),
        **{
            "connection.failed.authentication.delay.ms": "1",
            "listener.name.clients.plain.connections.max.reauth.ms": str(SESSION_MS),
        },
    )
    with RunningNode(tmp_path_factory.mktemp("node"), settings=settings, clock=clock) as running:
        yield running


def told(answer: bytes | None) -> SaslAuthenticateResponse:
    assert answer is not None
    return decode(SaslAuthenticateResponse, 2, answer[5:])


def log_in(peer: Peer, token: bytes = GOOD, mechanism: str = "PLAIN") -> SaslAuthenticateResponse:
    peer.send(handshake(mechanism))
    answer = peer.answer()
    assert answer is not None
    assert answer[4:6] == b"\0\0"
    peer.send(authenticate(token))
    return told(peer.answer())


def is_served(peer: Peer) -> bool:
    peer.send(api_versions())
    answer = peer.answer()
    return answer is not None and answer.startswith(VERSIONS.prefix)


def test_the_client_is_told_how_long_its_session_lasts(node: RunningNode) -> None:
    with Peer(node) as peer:
        assert log_in(peer).session_lifetime_ms == SESSION_MS
        assert is_served(peer)


def test_a_token_ends_its_session(node: RunningNode, clock: MovedClock) -> None:
    token = oauth(token_of(lifetime_s=30 + clock.ahead_s))
    with Peer(node) as peer:
        lifetime_ms = log_in(peer, token, "OAUTHBEARER").session_lifetime_ms
        assert 20_000 < lifetime_ms <= 30_000

        clock.ahead_s += 31
        peer.send(metadata())
        assert peer.answer() is None


def test_a_request_after_the_end_closes_the_connection_without_an_answer(node: RunningNode, clock: MovedClock) -> None:
    before = counted(node, "expired_sessions_killed", "PLAIN")
    with Peer(node) as peer:
        log_in(peer)
        clock.ahead_s += SESSION_MS // 1000
        peer.send(api_versions())

        assert peer.answer() is None

    assert counted(node, "expired_sessions_killed", "PLAIN") == before + 1


def test_a_client_may_authenticate_again_before_and_after_the_end(node: RunningNode, clock: MovedClock) -> None:
    before = counted(node, "successful_reauthentication", "PLAIN")
    with Peer(node) as peer:
        log_in(peer)
        for ahead_s in (5, SESSION_MS // 1000 + 5):
            clock.ahead_s += ahead_s
            assert log_in(peer).session_lifetime_ms == SESSION_MS
            assert is_served(peer)

    assert counted(node, "successful_reauthentication", "PLAIN") == before + 2


def test_again_is_at_most_once_a_second(node: RunningNode, clock: MovedClock) -> None:
    with Peer(node) as peer:
        log_in(peer)
        clock.ahead_s += 2
        log_in(peer)

        peer.send(handshake())
        assert peer.answer() == ILLEGAL_HANDSHAKE
        assert is_served(peer)

        clock.ahead_s += 2
        log_in(peer)
        assert is_served(peer)


def test_requests_before_and_behind_a_reauthentication_in_one_packet_are_answered_in_order(
    node: RunningNode, clock: MovedClock
) -> None:
    with Peer(node) as peer:
        log_in(peer)
        clock.ahead_s += 2
        peer.send(api_versions(), metadata(), handshake(), authenticate(GOOD), api_versions(0), metadata())
        answers = [peer.answer() for _ in range(6)]

    assert all(answers)
    assert answers[0] is not None
    assert answers[0].startswith(VERSIONS.prefix)
    assert told(answers[3]).error_code == 0


def test_another_request_than_a_token_ends_a_reauthentication(node: RunningNode, clock: MovedClock) -> None:
    with Peer(node) as peer:
        log_in(peer)
        clock.ahead_s += 2
        peer.send(handshake(), metadata())
        peer.answer()
        refused = peer.answer()

        assert refused is not None
        response = read_response(refused, ApiKey.METADATA, 12)[1]
        assert isinstance(response, MetadataResponse)
        assert [each.error_code for each in response.topics] == [ErrorCode.ILLEGAL_SASL_STATE]
        assert peer.answer() is None


def test_nobody_becomes_somebody_else(node: RunningNode, clock: MovedClock) -> None:
    before = counted(node, "failed_reauthentication", "PLAIN")
    with Peer(node) as peer:
        log_in(peer)
        clock.ahead_s += 2
        refused = log_in(peer, b"\0bob\0b")

        assert (refused.error_code, refused.error_message) == (
            58,
            "Cannot change principals during re-authentication from User.alice: User.bob",
        )
        assert peer.answer() is None

    assert counted(node, "failed_reauthentication", "PLAIN") == before + 1


def test_nobody_changes_the_mechanism(node: RunningNode, clock: MovedClock) -> None:
    with Peer(node) as peer:
        log_in(peer)
        clock.ahead_s += 2
        peer.send(handshake("OAUTHBEARER"))
        answer = peer.answer()
        assert answer is not None
        assert answer[4:6] == b"\0\0"

        peer.send(authenticate(oauth(token_of())))
        assert peer.answer() is None


def test_a_wrong_password_fails_again_too(node: RunningNode, clock: MovedClock) -> None:
    with Peer(node) as peer:
        log_in(peer)
        clock.ahead_s += 2
        refused = log_in(peer, b"\0alice\0wrong")

        assert refused.error_message == "Authentication failed: Invalid username or password"
        assert peer.answer() is None


def test_requests_are_small_again_while_a_client_authenticates_again(node: RunningNode, clock: MovedClock) -> None:
    with Peer(node) as peer:
        log_in(peer)
        clock.ahead_s += 2
        peer.send(handshake())
        peer.answer()
        peer.socket.sendall(struct.pack(">i", 524_289))
        assert peer.answer() is None
    with Peer(node) as peer:
        log_in(peer)
        clock.ahead_s += 2
        log_in(peer)
        peer.send(api_versions(0) + b"x" * 600_000)
        assert peer.answer() is not None


def test_no_quota_keeps_a_client_from_logging_in(node: RunningNode) -> None:
    # ApiVersions before a login is nobody's: Kafka answers it before any quota is asked.
    nobody = QuotaEntity(user="ANONYMOUS", client_id="c")
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        admin.alter_client_quota(nobody, {"request_percentage": 1e-6})
        with Peer(node) as peer:
            peer.send(api_versions(), handshake(), authenticate(GOOD))
            answers = [peer.answer() for _ in range(3)]
            throttles = [each.throttle for each in node.node._server.connections.values()]
        admin.alter_client_quota(nobody, {"request_percentage": None})

    versions = answers[0]
    assert versions is not None
    assert read_response(versions, ApiKey.API_VERSIONS, 3)[1].throttle_time_ms == 0  # type: ignore[attr-defined]
    assert told(answers[2]).error_code == 0
    assert None in throttles
