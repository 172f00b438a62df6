"""Every state of an authentication and every kind of request in it, byte by byte over real sockets."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from tests.support.running_node import DEADLINE_S, RunningNode
from tests.support.sasl_conversations import (
    ALL,
    GOOD,
    ONLY_PLAIN,
    VERSIONS,
    WRONG,
    Answer,
    Conversation,
    Start,
    api_versions,
    authenticate,
    authenticated,
    conversations,
    handshake,
    metadata,
    refused,
    shaken,
)
from tests.support.sasl_node import PASSWORD, add_scram_user, counted, sasl_settings
from tests.support.sasl_peer import Peer

TABLE = list(conversations())


# A refused client is to wait, but not every test for it.
SOON = {"connection.failed.authentication.delay.ms": "1"}


@pytest.fixture(scope="module")
def plain_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(tmp_path_factory.mktemp("node"), settings=sasl_settings(ONLY_PLAIN, **SOON)) as running:
        yield running


@pytest.fixture(scope="module")
def node_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(tmp_path_factory.mktemp("node"), settings=sasl_settings(ALL, **SOON)) as running:
        add_scram_user(running, "alice", PASSWORD)
        yield running


def fits(answer: bytes | None, expected: Answer) -> bool:
    if isinstance(expected, Start):
        return answer is not None and answer.startswith(expected.prefix)
    return answer == expected


@pytest.mark.parametrize("conversation", TABLE, ids=[each.name for each in TABLE])
def test_a_conversation_goes_as_in_kafka(
    plain_node: RunningNode, node_of_all: RunningNode, conversation: Conversation
) -> None:
    with Peer(plain_node if conversation.mechanisms == ONLY_PLAIN else node_of_all) as peer:
        expected = iter(conversation.answers)
        for frame in conversation.frames:
            peer.send(frame)
            answer = next(expected, b"none")
            if answer not in (b"none", None):
                heard = peer.answer()
                assert fits(heard, answer), (heard, answer)

        if conversation.ends:
            assert peer.answer() is None
        else:
            assert peer.is_open


def test_what_follows_the_last_token_in_the_same_packet_is_an_ordinary_request(plain_node: RunningNode) -> None:
    with Peer(plain_node) as peer:
        peer.send(handshake(), authenticate(GOOD), api_versions(), metadata())

        assert peer.answer() == shaken()
        assert peer.answer() == authenticated()
        assert fits(peer.answer(), VERSIONS)
        assert peer.answer() is not None


def test_what_follows_a_bad_token_is_never_looked_at(plain_node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatched: list[bytes] = []
    listener = plain_node.node._server.listeners["CLIENTS"]._handler
    dispatcher = listener.dispatcher  # type: ignore[attr-defined]

    class Watched:
        """Whoever would get requests."""

        def __getattr__(self, name: str) -> object:
            return getattr(dispatcher, name)

        def frame(self, _connection: object, frame: memoryview) -> None:
            dispatched.append(bytes(frame))

    monkeypatch.setattr(listener, "dispatcher", Watched())
    with Peer(plain_node) as peer:
        peer.send(handshake(), authenticate(WRONG), metadata(), authenticate(GOOD), metadata())

        assert peer.answer() == shaken()
        assert peer.answer() == refused("Authentication failed: Invalid username or password")
        assert peer.answer() is None

    assert dispatched == []


def test_a_request_is_small_before_authentication_and_as_large_as_any_after(plain_node: RunningNode) -> None:
    with Peer(plain_node) as peer:
        peer.socket.sendall(struct.pack(">i", 524_289))
        assert peer.answer() is None
    with Peer(plain_node) as peer:
        peer.send(handshake())
        peer.answer()
        peer.socket.sendall(struct.pack(">i", 524_289))
        assert peer.answer() is None
    with Peer(plain_node) as peer:
        peer.send(handshake(), authenticate(b"\0alice\0" + b"x" * 500_000))
        peer.answer()
        assert fits(peer.answer(), Start(refused("")[:7]))
    with Peer(plain_node) as peer:
        peer.send(handshake(), authenticate(GOOD), api_versions(0) + b"x" * 600_000)
        assert [peer.answer(), peer.answer()] == [shaken(), authenticated()]
        assert fits(peer.answer(), VERSIONS)


def test_a_refused_client_waits_for_its_answer(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = sasl_settings(ONLY_PLAIN, **{"connection.failed.authentication.delay.ms": "300"})
    with RunningNode(tmp_path_factory.mktemp("node"), settings=settings) as running, Peer(running) as peer:
        peer.send(handshake(), authenticate(WRONG))
        assert peer.answer() == shaken()
        peer.socket.settimeout(0.15)
        with pytest.raises(TimeoutError):
            peer.socket.recv(1)
        peer.socket.settimeout(DEADLINE_S)

        assert peer.answer() == refused("Authentication failed: Invalid username or password")
        assert counted(running, "failed_authentication", "PLAIN") == 1
