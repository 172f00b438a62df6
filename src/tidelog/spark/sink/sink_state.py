"""What is decided of one sink: the record of the topic of decisions, whole with every change.

    owner               the run that may decide; runs that it or others before it have superseded may not, ever
    finished_batch_id   the last batch of which every transaction is known to be committed
    decision            a later batch that is decided, and of whose transactions that is not known yet

A value is JSON, with a version, so that people can read the topic and a later release can tell what it has before it. The key is
query and sink; the prefix is in the value, since another one would look for transactions under other names.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidelog.spark.errors import SinkError
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity

VERSION = 1
# A run that comes back after so many others have claimed the sink is taken for a new one. That is no harm to what is decided: its
# transactions have ended long ago, and a batch of transactions that are not open is never decided.
SUPERSEDED_MAX = 64


class Decision(msgspec.Struct, frozen=True):
    """A batch counts, and these transactions are all of it."""

    batch_id: int
    participants: tuple[Participant, ...]


class SinkState(msgspec.Struct, frozen=True):
    """One sink of a query, after some decision."""

    prefix: str
    owner: str
    superseded: tuple[str, ...] = ()
    finished_batch_id: int | None = None
    decision: Decision | None = None

    @property
    def last_batch_id(self) -> int | None:
        """The last batch that is decided, finished or not."""
        return self.finished_batch_id if self.decision is None else self.decision.batch_id

    @property
    def named_ids(self) -> frozenset[str]:
        """Transactional ids that nobody but a commit may touch."""
        return frozenset() if self.decision is None else frozenset(map(_id_of, self.decision.participants))

    def claimed(self, run: str, others: Iterable[str]) -> SinkState:
        """With another owner; it supersedes the one before, and these."""
        gone = dict.fromkeys([*self.superseded, *([self.owner] if self.owner else []), *others])
        gone.pop(run, None)
        return msgspec.structs.replace(self, owner=run, superseded=tuple(gone)[-SUPERSEDED_MAX:])

    def decided(self, batch_id: int, participants: Iterable[Participant]) -> SinkState:
        """With an open decision, in place of one that came to nothing."""
        return msgspec.structs.replace(self, decision=Decision(batch_id, tuple(participants)))

    def finished(self, batch_id: int) -> SinkState:
        """Everything up to this batch is there."""
        return msgspec.structs.replace(self, finished_batch_id=batch_id, decision=None)


def _id_of(participant: Participant) -> str:
    return participant.transactional_id


class _Key(msgspec.Struct, frozen=True):
    query: str
    sink: str


class _Version(msgspec.Struct, frozen=True):
    version: int


class _Value(msgspec.Struct, frozen=True):
    version: int
    state: SinkState


def encode_key(identity: SinkIdentity) -> bytes:
    """The same bytes for the same query and sink, always."""
    return msgspec.json.encode(_Key(identity.query, identity.sink))


def decode_key(data: bytes) -> tuple[str, str] | None:
    """Query and sink; None for a key of somebody else's."""
    try:
        key = msgspec.json.decode(data, type=_Key)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return key.query, key.sink


def encode_state(state: SinkState) -> bytes:
    return msgspec.json.encode(_Value(VERSION, state))


def decode_state(data: bytes) -> SinkState:
    """SinkError for what this release cannot read: going on without it might write a batch twice."""
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version == VERSION:
            return msgspec.json.decode(data, type=_Value).state
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SinkError(f"a decision of the sink cannot be read, so that nothing is written: {error}") from error
    raise SinkError(
        f"a decision of the sink has version {version}, this release knows {VERSION}: use the one that wrote it, or a newer one"
    )
