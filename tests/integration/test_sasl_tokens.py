"""Signed tokens at a real listener: their keys are read while the client waits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from queue import Queue
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from jwt.algorithms import ECAlgorithm

from tests.support.running_node import DEADLINE_S, RunningNode
from tests.support.sasl_conversations import VERSIONS, api_versions, authenticate, handshake, metadata, oauth
from tests.support.sasl_node import sasl_settings
from tests.support.sasl_peer import Peer
from tidelog.broker.security.sasl_authenticator import SaslAuthenticator
from tidelog.model.listener_config import QUEUED_MAX_REQUESTS
from tidelog.model.pending import Pending
from tidelog.security.sasl.oauthbearer import BearerToken, OAuthBearerServer, TokenRefused, Validated
from tidelog.wire.codec import decode
from tidelog.wire.messages.sasl import SaslAuthenticateResponse

VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


@cache
def key(name: str) -> EllipticCurvePrivateKey:
    assert name
    return generate_private_key(SECP256R1())


def write_keys(path: Path, *names: str) -> None:
    keys = [{**json.loads(ECAlgorithm.to_jwk(key(each).public_key())), "kid": each} for each in names]
    path.write_text(json.dumps({"keys": keys}))


def token(name: str, **claims: object) -> str:
    now = int(time.time())
    said = {"sub": "svc", "iat": now, "exp": now + 600, "aud": "kafka", **claims}
    return jwt.encode(said, key(name), "ES256", headers={"kid": name})


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("issuer") / "keys.json"
    write_keys(path, "one")
    return path


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Iterator[RunningNode]:
    settings = sasl_settings(
        ("OAUTHBEARER",),
        **{
            "connection.failed.authentication.delay.ms": "1",
            "listener.name.clients.oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.audience": "kafka",
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys.as_uri(),
        },
    )
    with RunningNode(tmp_path_factory.mktemp("node"), settings=settings) as running:
        yield running


def told(answer: bytes | None) -> SaslAuthenticateResponse:
    assert answer is not None
    return decode(SaslAuthenticateResponse, 2, answer[5:])


def test_a_signed_token_is_taken_and_what_was_sent_meanwhile_is_answered(node: RunningNode) -> None:
    with Peer(node) as peer:
        # The first token of all: the keys are still to be read, on another thread.
        peer.send(handshake("OAUTHBEARER"), authenticate(oauth(token("one"))), api_versions(), api_versions(0))
        peer.answer()
        said = told(peer.answer())

        assert said.error_code == 0
        assert said.auth_bytes == b""
        assert 500_000 < said.session_lifetime_ms <= 600_000
        for _ in range(2):
            answer = peer.answer()
            assert answer is not None
            assert answer.startswith(VERSIONS.prefix)
        (connection,) = [each for each in node.node._server.connections.values() if each.listener_name == "CLIENTS"]
        assert str(connection.principal) == "User:svc"


@pytest.mark.parametrize("claims", [{"aud": "other"}, {"exp": 1}, {"iat": None}])
def test_a_token_with_bad_claims_is_refused_in_two_steps(node: RunningNode, claims: dict[str, object]) -> None:
    with Peer(node) as peer:
        peer.send(handshake("OAUTHBEARER"), authenticate(oauth(token("one", **claims))))
        peer.answer()
        assert told(peer.answer()).auth_bytes == b'{"status":"invalid_token"}'
        peer.send(authenticate(b"\x01"))
        refused = told(peer.answer())

        assert (refused.error_code, refused.error_message) == (58, '{"status":"invalid_token"}')
        assert peer.answer() is None


def test_a_new_key_is_found_while_its_first_token_waits(node: RunningNode, keys: Path) -> None:
    write_keys(keys, "one", "two")
    with Peer(node) as peer:
        peer.send(handshake("OAUTHBEARER"), authenticate(oauth(token("two"))))
        peer.answer()

        assert told(peer.answer()).auth_bytes == b""


class SlowLogin:
    """Tokens that are looked at for as long as a test likes."""

    def __init__(self, node: RunningNode, patch: pytest.MonkeyPatch) -> None:
        self.node = node
        self.listener = node.node._server.listeners["CLIENTS"]._handler
        self.asked: Queue[Pending[Validated]] = Queue()
        mechanisms = self.listener.mechanisms  # type: ignore[attr-defined]
        slow = mechanisms["OAUTHBEARER"]._replace(new_exchange=lambda: OAuthBearerServer(self._validate))
        patch.setattr(self.listener, "_mechanisms", lambda: {"OAUTHBEARER": slow})

    def _validate(self, _token: str) -> Pending[Validated]:
        pending: Pending[Validated] = Pending()
        self.asked.put(pending)
        return pending

    def done(self) -> None:
        """On the loop, as what is done beside it comes back."""
        good = BearerToken("svc", (int(time.time()) + 600) * 1000)
        pending = self.asked.get(timeout=DEADLINE_S)
        self.node.node._loop.call_soon_threadsafe(pending.complete, good)


@pytest.fixture
def slow(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> SlowLogin:
    return SlowLogin(node, monkeypatch)


def test_what_is_sent_behind_a_token_waits_for_it_however_much_it_is(slow: SlowLogin) -> None:
    # More than a connection may have unanswered.
    count = 3 * QUEUED_MAX_REQUESTS.default
    with Peer(slow.node) as peer:
        peer.send(handshake("OAUTHBEARER"), authenticate(oauth("x")), *[api_versions()] * count)
        peer.answer()

        slow.done()

        assert told(peer.answer()).error_code == 0
        for _ in range(count):
            answer = peer.answer()
            assert answer is not None
            assert answer.startswith(VERSIONS.prefix)


def test_what_is_sent_behind_a_bad_token_is_not_looked_at(slow: SlowLogin) -> None:
    with Peer(slow.node) as peer:
        peer.send(
            handshake("OAUTHBEARER"), authenticate(oauth("x")), b"nothing that anybody could read", api_versions()
        )
        peer.answer()
        pending = slow.asked.get(timeout=DEADLINE_S)

        slow.node.node._loop.call_soon_threadsafe(pending.complete, TokenRefused())

        assert told(peer.answer()).auth_bytes == b'{"status":"invalid_token"}'
        assert peer.answer() is None


def test_a_request_that_fails_behind_a_token_costs_that_connection_alone(
    slow: SlowLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        """An ordinary handler with a bug."""

        def __getattr__(self, name: str) -> Any:
            return getattr(ordinary, name)

        def frame(self, _connection: object, _frame: object) -> None:
            raise RuntimeError("a bug")

    ordinary = slow.listener.dispatcher  # type: ignore[attr-defined]
    monkeypatch.setattr(slow.listener, "dispatcher", Broken())
    with Peer(slow.node) as peer:
        peer.send(handshake("OAUTHBEARER"), authenticate(oauth("x")), metadata())
        peer.answer()
        slow.done()

        assert told(peer.answer()).error_code == 0
        assert peer.answer() is None
    monkeypatch.undo()
    assert not slow.node.node.stopped.done()
    with Peer(slow.node) as good:
        good.send(handshake("OAUTHBEARER"), authenticate(oauth(token("one"))), api_versions())
        good.answer()
        assert told(good.answer()).error_code == 0
        assert good.answer() is not None


def test_a_login_that_fails_by_a_bug_costs_that_connection_alone(
    slow: SlowLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: object, _exchange: object) -> tuple[int, None]:
        raise RuntimeError("a bug")

    monkeypatch.setattr(SaslAuthenticator, "_session", broken)
    with Peer(slow.node) as peer:
        peer.send(handshake("OAUTHBEARER"), authenticate(oauth("x")))
        peer.answer()
        slow.done()

        assert peer.answer() is None
    assert not slow.node.node.stopped.done()
