"""What can be wrong with bytes, or with a message that should become bytes.

    WireError
    ├── MalformedError            bytes that are not what they claim to be
    │   ├── UnknownApiError       a request for an API that does not exist
    │   └── UnknownRecordError    a record of an internal log whose type or frame is not known
    ├── UnsupportedVersionError   a version that a message does not have, or a field that a version does not have
    └── EncodeError               a value that its field cannot hold

`MalformedError` is a peer's or a disk's fault; the other two are answers to what our own code asked for, or to a version
that a peer chose.
"""


class WireError(Exception):
    """Any of the errors of this package."""


class MalformedError(WireError):
    """The bytes do not decode. The text names the message, its version and, where it is known, the field."""


class UnknownApiError(MalformedError):
    """A request header names an API key that Kafka's protocol does not have."""

    def __init__(self, api_key: int) -> None:
        super().__init__(f"there is no API with the key {api_key}")
        self.api_key = api_key


class UnknownRecordError(MalformedError):
    """A record of an internal log has a type, a frame or a version that this release does not know."""


class UnsupportedVersionError(WireError):
    """A message has no such version, or a field was set that the version cannot carry."""


class EncodeError(WireError):
    """A field holds a value that its wire type cannot: out of range, too long, null, or of another type."""
