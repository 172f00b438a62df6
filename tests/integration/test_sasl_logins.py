"""A connection to another node that logs in first, and again before its session ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import SystemRandom

import pytest

from tests.support.running_node import DEADLINE_S, RunningNode
from tests.support.sasl_node import MECHANISMS, PASSWORD, USER, add_scram_user, counted, sasl_settings, token_of
from tidelog.model.slow_work import ThreadSlowWork
from tidelog.net.address import Address
from tidelog.net.connection_security import ClientAuthentication, ConnectionSecurity
from tidelog.net.errors import AuthenticationError, RequestFailedError
from tidelog.net.node_connection import ConnectionOptions, ConnectionParts, Event, NodeConnection
from tidelog.net.transport import LoopTransport
from tidelog.security.sasl.client_login import SaslLogin
from tidelog.security.sasl.exchange import ClientExchange
from tidelog.security.sasl.oauthbearer import OAuthBearerClient
from tidelog.security.sasl.plain import PlainClient
from tidelog.security.sasl.scram import ScramClient
from tidelog.security.sasl.scram_credential import ScramMechanism
from tidelog.wire.frames import SIZE_BYTES, request_frame
from tidelog.wire.messages.api_versions import ApiVersionsRequest

TIMEOUT_MS = int(DEADLINE_S * 1000)
# Longer than the second that has to pass between two logins on a connection.
SESSION_MS = 1400


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    settings = sasl_settings(
        MECHANISMS,
        **{
            "connection.failed.authentication.delay.ms": "1",
            "listener.name.clients.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
        },
    )
    with RunningNode(tmp_path_factory.mktemp("node"), settings=settings) as running:
        add_scram_user(running)
        yield running


class Client:
    """A connection with a login, and what it was told of."""

    def __init__(
        self,
        node: RunningNode,
        slow_work: ThreadSlowWork,
        mechanism: str,
        password: Callable[[], str] = lambda: PASSWORD,
        listener: str = "CLIENTS",
    ) -> None:
        def exchange() -> ClientExchange:
            scram = ScramMechanism.named(mechanism)
            if scram is not None:
                return ScramClient(scram, USER, password(), SystemRandom(), slow_work)
            if mechanism == "OAUTHBEARER":
                return OAuthBearerClient(lambda: token_of() if password() == PASSWORD else "nonsense")
            return PlainClient(USER, password())

        def login(_address: Address) -> ClientAuthentication:
            self.logins += 1
            return SaslLogin(mechanism, exchange(), client_id="test")

        loop = asyncio.get_running_loop()
        endpoint = node.node.endpoint(listener)
        self.logins = 0
        self.events: list[Event] = []
        self.connection = NodeConnection(
            ConnectionParts(loop, LoopTransport(loop), SystemRandom()),
            endpoint.host,
            endpoint.port,
            on_event=self.events.append,
            options=ConnectionOptions(reconnect_backoff_ms=1, reconnect_backoff_max_ms=5),
            security=ConnectionSecurity(authentication=login),
        )

    async def ask(self) -> bytes:
        request = ApiVersionsRequest(client_software_name="", client_software_version="")
        frame = request_frame(request, 0, self.connection.next_correlation_id(), "test")
        return await self.connection.request([frame[SIZE_BYTES:]], timeout_ms=TIMEOUT_MS)


@contextmanager
def slow_work() -> Iterator[ThreadSlowWork]:
    made = ThreadSlowWork(asyncio.get_running_loop().call_soon_threadsafe)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_connection_logs_in_before_its_first_request(node: RunningNode, mechanism: str) -> None:
    async def main() -> None:
        with slow_work() as work:
            client = Client(node, work, mechanism)
            answers = await asyncio.gather(*(client.ask() for _ in range(5)))
            client.connection.close()
            assert all(answers)
            assert client.events == [Event.CONNECTED]
            assert client.logins == 1

    before = counted(node, "successful_authentication", mechanism)
    asyncio.run(main())

    assert counted(node, "successful_authentication", mechanism) == before + 1


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        ("PLAIN", "the login with PLAIN failed: Authentication failed: Invalid username or password"),
        ("SCRAM-SHA-512", "due to invalid credentials with SASL mechanism SCRAM-SHA-512"),
        ("OAUTHBEARER", 'the login with OAUTHBEARER failed: {"status":"invalid_token"}'),
        ("GSSAPI", "is not enabled there: OAUTHBEARER, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ],
)
def test_a_login_that_fails_is_told_in_one_sentence(node: RunningNode, mechanism: str, reason: str) -> None:
    async def main() -> None:
        with slow_work() as work:
            client = Client(node, work, mechanism, lambda: "wrong")
            with pytest.raises(AuthenticationError) as failed:
                await client.ask()
            client.connection.close()
            assert reason in str(failed.value)
            assert str(failed.value).startswith(f"cannot connect to {client.connection.address}: ")
            assert client.events == [Event.UNREACHABLE]

    asyncio.run(main())


def test_a_listener_without_sasl_expects_no_login(node: RunningNode) -> None:
    async def main() -> None:
        with slow_work() as work:
            client = Client(node, work, "PLAIN", listener="PLAINTEXT")
            with pytest.raises(AuthenticationError, match="does not expect a login"):
                await client.ask()
            client.connection.close()

    asyncio.run(main())


def test_a_password_that_becomes_right_is_taken_at_the_next_attempt(node: RunningNode) -> None:
    passwords = ["wrong"]

    async def main() -> None:
        with slow_work() as work:
            client = Client(node, work, "PLAIN", lambda: passwords[-1])
            with pytest.raises(AuthenticationError):
                await client.ask()
            passwords.append(PASSWORD)
            assert await client.ask()
            client.connection.close()

    asyncio.run(main())


def test_a_session_is_renewed_on_the_same_connection_and_no_request_is_lost(node: RunningNode) -> None:
    before = counted(node, "successful_reauthentication", "SCRAM-SHA-256")

    async def main() -> None:
        with slow_work() as work:
            client = Client(node, work, "SCRAM-SHA-256")
            deadline = time.monotonic() + DEADLINE_S
            asked = 0
            while client.logins < 3:
                assert time.monotonic() < deadline
                await asyncio.gather(*(client.ask() for _ in range(3)))
                assert client.connection.is_connected
                asked += 3
            await client.ask()
            client.connection.close()
            assert asked > 10
            assert client.events == [Event.CONNECTED]

    asyncio.run(main())

    assert counted(node, "successful_reauthentication", "SCRAM-SHA-256") >= before + 2
    assert counted(node, "expired_sessions_killed", "SCRAM-SHA-256") == 0


def test_a_session_that_cannot_be_renewed_ends_the_connection(node: RunningNode) -> None:
    passwords = [PASSWORD]

    async def main() -> None:
        with slow_work() as work:
            client = Client(node, work, "SCRAM-SHA-256", lambda: passwords[-1])
            await client.ask()
            passwords.append("wrong")
            deadline = time.monotonic() + DEADLINE_S
            error: RequestFailedError | None = None
            while error is None:
                assert time.monotonic() < deadline
                try:
                    await client.ask()
                except RequestFailedError as failed:
                    error = failed
            client.connection.close()
            assert isinstance(error, AuthenticationError)
            assert "the login with SCRAM-SHA-256 failed" in str(error)
            assert client.events[:2] == [Event.CONNECTED, Event.BROKEN]

    asyncio.run(main())


def test_a_node_that_hangs_up_during_a_login_is_told(node: RunningNode) -> None:
    async def main() -> None:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(4)
            writer.close()

        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with slow_work() as work:
            client = Client(node, work, "PLAIN")
            client.connection.address = Address("127.0.0.1", port)
            with pytest.raises(AuthenticationError, match="the node closed the connection"):
                await client.ask()
            client.connection.close()
        server.close()

    asyncio.run(main())
