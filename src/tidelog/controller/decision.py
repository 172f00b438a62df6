"""What a decision of the controller is: records for the metadata log, and an answer that waits until they are committed.

    decide_create_topics(image, request, ...) -> Decision(records, answer)

A decision function is pure: an image and a request in, a decision out. It changes nothing; only records do, and only once they
are in the log. What somebody asked for in vain is part of the answer, as a code and a sentence.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from tidelog.controller.image import ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.schema import MetadataRecord

R = TypeVar("R")

# As in Kafka: more of one request's records than this is a mistake, and would not fit into one batch in the end.
RECORDS_PER_REQUEST_MAX = 10_000


class Decision(Struct, Generic[R], frozen=True):
    """The records go to the log as one batch, all or none. Without records the answer holds at once."""

    answer: R
    records: tuple[FramedRecord, ...] = ()


class Refusal(Struct, frozen=True):
    """Why something that was asked for is not done."""

    error: ErrorCode
    message: str

    @classmethod
    def of(cls, error: ErrorCode) -> Refusal:
        """An error that its code says all about."""
        return cls(error, error.message)


class RefusedError(Exception):
    """A whole request cannot be served. Stays inside this package: `Controller` turns it into the API's own answer."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.message)
        self.refusal = Refusal(error, message or error.message)


def framed(image: ClusterImage, record: MetadataRecord) -> FramedRecord:
    """A record in the version that the cluster has agreed on."""
    return FramedRecord(record, image.metadata_version.record_version(type(record)))
