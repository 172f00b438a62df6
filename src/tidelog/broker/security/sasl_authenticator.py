"""Until a client of a SASL listener has said who it is: Kafka's `SaslServerAuthenticator`, state by state.

    INITIAL_REQUEST          ApiVersions or SaslHandshake        -> HANDSHAKE_OR_VERSIONS_REQUEST, then as that
    HANDSHAKE_OR_VERSIONS    ApiVersions that is answered well   -> HANDSHAKE_REQUEST
                             SaslHandshake                       -> AUTHENTICATE; an unknown mechanism: 33, FAILED
    HANDSHAKE_REQUEST        SaslHandshake                       -> AUTHENTICATE
    AUTHENTICATE             v0: bare tokens; v1: SaslAuthenticate, until the exchange is complete
                             another API: 34, FAILED; a bad token: 58, FAILED
    REAUTH_HANDSHAKE         the SaslHandshake that begins a re-authentication; with another mechanism -> REAUTH_BAD_MECHANISM;
                             with an unknown one the connection ends at once, without an answer
    REAUTH_BAD_MECHANISM     anything                            -> FAILED, without an answer
    FAILED                   nothing more is looked at; the answer, if any, comes `failure_delay_ms` later, and the end behind it

What is not among these ends the connection at once, without an answer. Only the four bytes of key and version of any other
request are ever looked at. Whoever has authenticated gets the listener's ordinary handler, from the very next request on; a
session that ends has a `SaslSession` before it.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING

from tidelog.broker.security.sasl_session import Authenticated, SaslSession
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.model.principal import Principal
from tidelog.net.connection import LOGIN_PENDING, ClientSoftware
from tidelog.security.sasl.exchange import SaslAuthenticationError, SaslError, ServerExchange, UnexpectedTokenError
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.codec import encode
from tidelog.wire.error_answers import error_answer
from tidelog.wire.errors import WireError
from tidelog.wire.frames import is_unknown_api_versions, read_request, read_request_header
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tidelog.wire.schema import Request, Response

if TYPE_CHECKING:
    from tidelog.broker.security.sasl_listener import SaslListener
    from tidelog.broker.security.sasl_mechanisms import Mechanism
    from tidelog.net.connection import Connection

log = logging.getLogger(__name__)

# How far the end of a refused connection stays behind its answer. There are clients (kafka-python) that drop what they read
# in one go with the end, and would never learn why. Kafka's brokers need some time between the two, if not as long.
ANSWER_ALONE_MS = 20
# How long a refused client is given to close its side.
LINGER_MS_MAX = 500
# To its last bare token Java's server of GSSAPI has no answer, not even an empty one.
_WITHOUT_LAST_WORD = frozenset({"GSSAPI"})


class State(Enum):
    INITIAL_REQUEST = "INITIAL_REQUEST"
    HANDSHAKE_OR_VERSIONS_REQUEST = "HANDSHAKE_OR_VERSIONS_REQUEST"
    HANDSHAKE_REQUEST = "HANDSHAKE_REQUEST"
    AUTHENTICATE = "AUTHENTICATE"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    REAUTH_HANDSHAKE = "REAUTH_PROCESS_HANDSHAKE"
    REAUTH_BAD_MECHANISM = "REAUTH_BAD_MECHANISM"


_TAKES_HANDSHAKE = frozenset(
    {State.INITIAL_REQUEST, State.HANDSHAKE_OR_VERSIONS_REQUEST, State.HANDSHAKE_REQUEST, State.REAUTH_HANDSHAKE}
)


class _RefusedError(Exception):
    """Kafka's AuthenticationException: the client is answered, if there is an answer, and closed after the delay."""

    def __init__(self, text: str, answer: bytes | None = None) -> None:
        super().__init__(text)
        self.answer = answer


class _UnreadableError(Exception):
    """Any other exception of Kafka's: the connection ends at once."""


class SaslAuthenticator:
    """The frame handler of one connection, before its first authentication and during each later one."""

    def __init__(self, listener: SaslListener, connection: Connection, previous: Authenticated | None = None) -> None:
        """`previous`: who it was before this re-authentication."""
        self._listener = listener
        self._connection = connection
        self._previous = previous
        self._state = State.INITIAL_REQUEST if previous is None else State.REAUTH_HANDSHAKE
        self._begun_ns = listener.clock.monotonic_ns()
        self._mechanism: Mechanism | None = None
        self._exchange: ServerExchange | None = None
        # Whether tokens come in SaslAuthenticate, and what the request at hand is answered with.
        self._has_headers = False
        self._client_can_reauthenticate = False
        self._bad_mechanism = ""
        connection.limit_requests(listener.request_bytes_max)

    # --- the handler of frames ---------------------------------------------------------------------------------------------

    def connection_opened(self, connection: Connection) -> None: ...

    def connection_closed(self, connection: Connection) -> None:
        if self._previous is not None:
            # It was let in before, and is known to whoever watches connections.
            self._listener.dispatcher.connection_closed(connection)

    def frames_done(self, connection: Connection) -> None:
        self._listener.dispatcher.frames_done(connection)

    def frame(self, connection: Connection, frame: memoryview) -> None:
        if self._state is not State.FAILED:
            try:
                self._take(connection, frame)
            except _RefusedError as refused:
                self._refuse(refused)
            except _UnreadableError as error:
                self._end(str(error))

    def _take(self, connection: Connection, frame: memoryview) -> None:
        if self._state is State.REAUTH_BAD_MECHANISM:
            raise _RefusedError(self._bad_mechanism)
        if self._state in _TAKES_HANDSHAKE:
            self._take_request(connection, frame)
        elif self._has_headers:
            self._take_authenticate(frame)
        else:
            self._evaluate(bytes(frame), None)

    # --- ApiVersions and SaslHandshake -------------------------------------------------------------------------------------

    def _take_request(self, connection: Connection, frame: memoryview) -> None:
        key = int.from_bytes(frame[:2], signed=True) if len(frame) >= 2 else None
        if key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            # Before anything else of it is looked at.
            raise _UnreadableError(self._unexpected(key))
        header, position = self._header(frame)
        is_unknown = is_unknown_api_versions(header)
        request = None if is_unknown else self._body(frame, header, position)
        if self._state is State.INITIAL_REQUEST:
            self._state = State.HANDSHAKE_OR_VERSIONS_REQUEST
        if isinstance(request, SaslHandshakeRequest):
            self._handshake(header, request)
            return
        if self._state is not State.HANDSHAKE_OR_VERSIONS_REQUEST:
            raise _UnreadableError(
                f"Unexpected ApiVersions request received during SASL authentication state {self._state.value}"
            )
        # The ordinary handler answers: the same as it will afterwards. No quota is asked, as in Kafka: it is nobody's yet.
        self._listener.dispatcher.answer_api_versions(connection, frame)
        if isinstance(request, ApiVersionsRequest) and _is_answered(request, header.request_api_version):
            self._state = State.HANDSHAKE_REQUEST

    def _unexpected(self, key: int | None) -> str:
        if self._state is State.INITIAL_REQUEST:
            return (
                "Invalid request, potential reasons: kafka client configured with the wrong security protocol, it does not"
                " support KIP-43 or it is not a kafka client."
            )
        return f"Unexpected Kafka request of type {key} during SASL handshake."

    def _handshake(self, header: RequestHeader, request: SaslHandshakeRequest) -> None:
        if header.request_api_version >= 1:
            self._has_headers = True
        enabled = self._listener.mechanisms
        mechanism = enabled.get(request.mechanism)
        error = ErrorCode.NONE if mechanism is not None else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        answer = _answer(header, SaslHandshakeResponse(error_code=error, mechanisms=list(enabled)))
        if mechanism is None:
            if self._previous is not None:
                # As in Kafka: what begins a re-authentication is not waited with, and not answered.
                raise _UnreadableError(f"Unsupported SASL mechanism {request.mechanism!r}")
            raise _RefusedError(f"Unsupported SASL mechanism {request.mechanism!r}", answer)
        self._send(answer)
        if self._previous is not None and self._previous.mechanism != mechanism.name:
            self._bad_mechanism = (
                f"SASL mechanism '{mechanism.name}' requested by client is not supported for re-authentication of"
                f" mechanism '{self._previous.mechanism}'"
            )
            self._state = State.REAUTH_BAD_MECHANISM
            return
        self._mechanism = mechanism
        self._exchange = mechanism.new_exchange()
        self._state = State.AUTHENTICATE

    # --- tokens ------------------------------------------------------------------------------------------------------------

    def _take_authenticate(self, frame: memoryview) -> None:
        header, position = self._header(frame)
        if header.request_api_key != ApiKey.SASL_AUTHENTICATE:
            name = api(header.request_api_key).key.name
            text = f"Unexpected Kafka request of type {name} during SASL authentication."
            raise _RefusedError(text, _own_error_answer(frame, header, position, text))
        request = self._body(frame, header, position)
        assert isinstance(request, SaslAuthenticateRequest)
        if header.request_api_version > 0:
            self._client_can_reauthenticate = True
        self._evaluate(bytes(request.auth_bytes), header)

    def _evaluate(self, token: bytes, header: RequestHeader | None) -> None:
        """A token, in the request of `header` or, where there is none, by itself."""
        assert self._exchange is not None
        try:
            answer = self._exchange.evaluate(token)
        except SaslError as error:
            self._fail(error, header)
            return
        if isinstance(answer, Pending) and not answer.is_complete:
            # What it sends meanwhile waits where it is, for whoever is the handler by then.
            self._connection.mute(LOGIN_PENDING)
            answer.then(lambda outcome: self._evaluated_later(outcome, header))
            return
        self._evaluated(answer.value if isinstance(answer, Pending) else answer, header)

    def _evaluated(self, outcome: bytes | SaslError, header: RequestHeader | None) -> None:
        if isinstance(outcome, SaslError):
            self._fail(outcome, header)
            return
        exchange, mechanism = self._exchange, self._mechanism
        assert exchange is not None
        assert mechanism is not None
        lifetime_ms = 0
        ends_ns = None
        if exchange.is_complete:
            problem = self._principal_problem(exchange.principal)
            if problem is not None:
                self._fail(problem, header)
                return
            lifetime_ms, ends_ns = self._session(exchange)
        if header is None:
            if outcome or not exchange.is_complete or mechanism.name not in _WITHOUT_LAST_WORD:
                self._send(outcome)
        else:
            self._send(
                _answer(
                    header,
                    SaslAuthenticateResponse(
                        error_code=ErrorCode.NONE,
                        error_message="",
                        auth_bytes=outcome,
                        session_lifetime_ms=lifetime_ms,
                    ),
                )
            )
        if exchange.is_complete:
            self._complete(exchange, ends_ns)

    def _evaluated_later(self, outcome: bytes | SaslError, header: RequestHeader | None) -> None:
        connection = self._connection
        if connection.is_closed:
            return
        try:
            self._evaluated(outcome, header)
        except _RefusedError as refused:
            self._refuse(refused)
        except _UnreadableError as error:
            self._end(str(error))
        except Exception as error:
            # It costs this client its connection, as it would where its token was looked at in time.
            log.exception("%s: closed: its login failed", connection)
            connection.abort(error)
        connection.unmute(LOGIN_PENDING)

    def _principal_problem(self, principal: Principal) -> SaslAuthenticationError | None:
        previous = None if self._previous is None else self._previous.principal
        if previous is None or previous[:2] == principal[:2]:
            return None
        return SaslAuthenticationError(
            f"Cannot change principals during re-authentication from {previous.principal_type}.{previous.name}:"
            f" {principal.principal_type}.{principal.name}"
        )

    def _session(self, exchange: ServerExchange) -> tuple[int, int | None]:
        """How long it lasts, to tell the client, and when it ends."""
        assert self._mechanism is not None
        clock = self._listener.clock
        lifetimes_ms = [self._mechanism.reauth_ms_max] if self._mechanism.reauth_ms_max > 0 else []
        if exchange.session_end_ms is not None:
            lifetimes_ms.append(exchange.session_end_ms - clock.now_ms())
        if not lifetimes_ms:
            return 0, None
        lifetime_ms = max(0, min(lifetimes_ms))
        return lifetime_ms, clock.monotonic_ns() + lifetime_ms * 1_000_000

    def _complete(self, exchange: ServerExchange, ends_ns: int | None) -> None:
        assert self._mechanism is not None
        listener, connection, mechanism = self._listener, self._connection, self._mechanism.name
        self._state = State.COMPLETE
        connection.principal = exchange.principal
        counts = listener.counts(mechanism)
        if self._previous is not None:
            counts.successful_reauthentication += 1
        else:
            counts.successful_authentication += 1
            if not self._client_can_reauthenticate:
                counts.successful_authentication_no_reauth += 1
        log.debug("Successfully %s with %s as %s by %s", self._doing(), connection, connection.principal, mechanism)
        connection.limit_requests(None)
        if ends_ns is None:
            connection.handler = listener.dispatcher
        else:
            begun_ns = None if self._previous is None else self._begun_ns
            connection.handler = SaslSession(
                listener, connection, Authenticated(mechanism, exchange.principal, ends_ns), begun_ns
            )

    # --- failures ----------------------------------------------------------------------------------------------------------

    def _fail(self, error: SaslError, header: RequestHeader | None) -> None:
        """A token that was not good."""
        assert self._mechanism is not None
        if isinstance(error, UnexpectedTokenError):
            raise _UnreadableError(str(error))
        if header is None:
            # Bare tokens have no place for an error.
            if isinstance(error, SaslAuthenticationError):
                raise _RefusedError(str(error))
            raise _UnreadableError(str(error))
        doing = "re-authentication" if self._previous is not None else "authentication"
        told = f"Authentication failed during {doing} due to invalid credentials with SASL mechanism {self._mechanism.name}"
        if isinstance(error, SaslAuthenticationError):
            told = str(error)
        answer = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told, auth_bytes=b"", session_lifetime_ms=0
        )
        raise _RefusedError(str(error), _answer(header, answer))

    def _refuse(self, refused: _RefusedError) -> None:
        self._state = State.FAILED
        connection, listener = self._connection, self._listener
        counts = listener.counts(None if self._mechanism is None else self._mechanism.name)
        if self._previous is not None:
            counts.failed_reauthentication += 1
        else:
            counts.failed_authentication += 1
        # What a client said may be in it, and shall not look like a line of its own.
        log.info("Failed %s with %s (%s)", self._doing("authentication"), connection, repr(str(refused))[1:-1])
        connection.stop_taking()
        listener.timers.after(listener.failure_delay_ms, lambda: self._close(refused.answer))

    def _doing(self, what: str = "authenticated") -> str:
        return what if self._previous is None else f"re-{what}"

    def _close(self, answer: bytes | None) -> None:
        connection = self._connection
        if connection.is_closed:
            return
        if answer is None:
            connection.finish(self._half_close)
            return
        self._send(answer)
        connection.finish(self._half_close_later)

    def _half_close_later(self) -> None:
        self._listener.timers.after(ANSWER_ALONE_MS, self._half_close)

    def _half_close(self) -> None:
        # Closing at once could reset the connection, and the client might never read why it was refused.
        self._connection.half_close()
        self._listener.timers.after(LINGER_MS_MAX, self._connection.abort)

    def _end(self, reason: str) -> None:
        self._state = State.FAILED
        log.info("closing %s during %s: %s", self._connection, self._doing("authentication"), reason)
        self._connection.close_when_sent()

    # --- bytes -------------------------------------------------------------------------------------------------------------

    def _send(self, answer: bytes) -> None:
        self._connection.expect_answer().send([answer])

    def _header(self, frame: memoryview) -> tuple[RequestHeader, int]:
        try:
            return read_request_header(frame)
        except (WireError, UnicodeDecodeError) as error:
            raise _UnreadableError(str(error)) from None

    def _body(self, frame: memoryview, header: RequestHeader, position: int) -> object:
        try:
            return read_request(frame, header, position)
        except (WireError, UnicodeDecodeError) as error:
            raise _UnreadableError(str(error)) from None


def _is_answered(request: ApiVersionsRequest, version: int) -> bool:
    """Whether a request for ApiVersions is a good one: after one that is not, another may follow."""
    return version < 3 or ClientSoftware(request.client_software_name, request.client_software_version).is_valid


def _answer(header: RequestHeader, response: Response, version: int | None = None) -> bytes:
    """An answer, without its size."""
    version = header.request_api_version if version is None else version
    head = ResponseHeader(correlation_id=header.correlation_id)
    return encode(head, api(response.api_key).response_header_version(version)) + encode(response, version)


def _own_error_answer(frame: memoryview, header: RequestHeader, position: int, text: str) -> bytes | None:
    """ILLEGAL_SASL_STATE in the form of an API's own answer; None where a request is never answered."""
    if is_unknown_api_versions(header):
        # Answered in the version that every client knows (KIP-511).
        request: Request = ApiVersionsRequest(client_software_name="", client_software_version="")
        version = 0
    else:
        version = header.request_api_version
        try:
            request = read_request(frame, header, position)
        except (WireError, UnicodeDecodeError) as error:
            raise _UnreadableError(str(error)) from None
    answer = error_answer(request, version, ErrorCode.ILLEGAL_SASL_STATE, text)
    return None if answer is None else _answer(header, answer, version)
