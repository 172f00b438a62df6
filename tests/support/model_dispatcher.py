"""A dispatcher that answers Fetch by the model of `fetch_model`, for tests that compare it with the broker's own."""

from __future__ import annotations

from typing import cast

from tests.support.answered_connection import AnsweredConnection
from tests.support.fetch_model import model_fetch
from tidelog.broker.requests.caller import Authorizer, Caller
from tidelog.broker.requests.node_view import Node
from tidelog.model.pending import Pending
from tidelog.net.connection import Connection
from tidelog.storage.file_region import FileRegion
from tidelog.wire.codec import encode_parts
from tidelog.wire.errors import MalformedError, UnsupportedVersionError
from tidelog.wire.frames import read_request, read_request_header
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse

FLEXIBLE_VERSION = 12


class ModelDispatcher:
    """Reads requests, and gives their answers to the connection."""

    def __init__(self, node: Node, authorizer: Authorizer) -> None:
        self._node = node
        self._authorizer = authorizer
        self.waiting = 0

    def frame(self, connection: AnsweredConnection, frame: memoryview) -> None:
        """Take one request."""
        try:
            header, position = read_request_header(frame)
            request = read_request(frame, header, position)
        except (MalformedError, UnsupportedVersionError):
            connection.close_when_sent()
            return
        assert isinstance(request, FetchRequest)
        version = header.request_api_version
        caller = Caller(
            cast("Connection", connection), header.client_id, header.request_api_key, version, self._authorizer
        )
        outcome = model_fetch(request, caller, self._node)
        slot = connection.expect_answer()

        def answered(answer: FetchResponse) -> None:
            self.waiting -= 1
            envelope = header.correlation_id.to_bytes(4, "big", signed=True)
            if version >= FLEXIBLE_VERSION:
                envelope += b"\0"
            parts = [
                part.read() if isinstance(part, FileRegion) else bytes(cast("bytes", part))
                for part in encode_parts(answer, version)
            ]
            slot.send([envelope, *parts])

        self.waiting += 1
        if isinstance(outcome, Pending):
            outcome.then(answered)
        else:
            answered(outcome)
