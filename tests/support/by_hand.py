"""A request answered by a few lines that do what a dispatcher does, with messages that generated functions read and write: what a
dispatcher with typed, compiled messages is held against."""

from __future__ import annotations

from typing import Any, cast

from tests.support.answered_connection import AnsweredConnection
from tidelog.broker.requests.caller import Authorizer, Caller
from tidelog.broker.requests.handling import HANDLERS
from tidelog.broker.requests.node_view import Node
from tidelog.model.pending import Pending
from tidelog.net.connection import Connection
from tidelog.wire.apis import api
from tidelog.wire.codec import encode, generated_decode_from, generated_encode_parts
from tidelog.wire.errors import MalformedError
from tidelog.wire.messages.headers import RequestHeader, ResponseHeader
from tidelog.wire.schema import Response


def answer_by_hand(frame: bytes, connection: AnsweredConnection, node: object, authorizer: Authorizer) -> None:
    """Have the handler of a request answer it; what cannot be read closes the connection."""
    key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    asked, handler = api(key), HANDLERS[key]
    view = memoryview(bytearray(frame))
    try:
        header, position = generated_decode_from(RequestHeader, asked.request_header_version(version), view)
        request, _ = generated_decode_from(asked.request, version, view, position)
    except MalformedError:
        connection.close_when_sent()
        return
    caller = Caller(cast("Connection", connection), header.client_id, key, version, authorizer)
    outcome: Any = handler.answer(request, caller, cast("Node", node))
    if outcome is None:
        return
    slot = connection.expect_answer()
    answered_in = asked.response_header_version(version)

    def send(answer: Response) -> None:
        head = encode(ResponseHeader(correlation_id=header.correlation_id), answered_in)
        slot.send([head, b"".join(cast("list[bytes]", generated_encode_parts(answer, version)))])

    if isinstance(outcome, Pending):
        outcome.then(send)
    else:
        send(outcome)
