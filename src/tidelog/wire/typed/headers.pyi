"""To a type checker the typed messages are the declared ones. Written by tools/typed_messages.py; not to be edited."""

from tidelog.wire.messages.headers import (
    RequestHeader as RequestHeader,
    ResponseHeader as ResponseHeader,
)
