"""What the protocol of the sink asks for, one thing at a time, and what it is answered. Pure.

Whoever does effects (`sink_cluster`, a model in tests) does one wholly before it answers. An exception in place of an answer is
the same as dying there: nobody knows what was done.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import TypeAlias, TypeVar

import msgspec

from tidelog.spark.outputs.staged import StagedOutput, Target
from tidelog.spark.sink.audit_entry import AuditEntry
from tidelog.spark.sink.sink_batch import TopicOutput
from tidelog.spark.sink.sink_participant import Participant
from tidelog.spark.sink.sink_state import SinkState

T = TypeVar("T")


class Ending(Enum):
    """What became of a transaction that was to be committed."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The cluster has forgotten it, or somebody else has used its transactional id."""


class Unended(msgspec.Struct, frozen=True):
    """Why a staged output does not count yet."""

    reason: str
    is_refused: bool
    """For good, as things are. Else it was not reached, for as long as was waited."""


class OpenTransaction(msgspec.Struct, frozen=True):
    """A transaction that is open now, or was when it was handed over."""

    transactional_id: str
    producer_id: int
    cluster: Target | None = None

    def __hash__(self) -> int:
        # A target has mappings, and no hash.
        return hash((self.transactional_id, self.producer_id))


class TakeOver(msgspec.Struct, frozen=True):
    """Take the decider's transactional id from whoever has it, then read the newest state. Answer: it, or None."""

    run: str
    """Where it is not the owner, the topic of decisions is looked at as well: whether it keeps what is written to it."""
    is_fresh: bool = False
    """There cannot be a state: nobody has used this identity before."""


class Record(msgspec.Struct, frozen=True):
    """Write a state, as the decider, and an audit entry in the same transaction. Answer: whether it is written; False where
    another one has taken over."""

    state: SinkState | None
    """None: forget the identity."""
    audit: AuditEntry | None = None


class CheckStaged(msgspec.Struct, frozen=True):
    """See whether staged outputs would be taken. Answer: for each why not, or an empty text."""

    staged: tuple[StagedOutput, ...]


class Pin(msgspec.Struct, frozen=True):
    """Fence the tasks that wrote these transactions, and take away their time-outs (KIP-939), side by side. A cluster that cannot
    do that sees at least that they are open. Answer: for each topic output a Held. Asking again is as good, with yet another
    epoch.
    """

    topics: tuple[TopicOutput, ...]


class Held(msgspec.Struct, frozen=True):
    """What is open of a topic output."""

    participants: tuple[Participant | None, ...]
    """For each who may end it from now on; None for one that is not open any more, or whose id somebody else has taken."""
    has_timeout: bool = False
    """Their cluster could not pin them: it will end them by itself."""


class EndStaged(msgspec.Struct, frozen=True):
    """Make staged rows count, once, however often it is asked. Answer: None, or why they do not yet."""

    output: StagedOutput


class End(msgspec.Struct, frozen=True):
    """Commit transactions, side by side, in any order. Answer: the Ending of each. One that has ended before is not an error."""

    topics: tuple[TopicOutput, ...]


class Discard(msgspec.Struct, frozen=True):
    """Remove what is staged and does not count, as far as it goes: nothing depends on it. Answer: None."""

    staged: tuple[StagedOutput, ...]


class Listing(msgspec.Struct, frozen=True):
    """What is open."""

    found: tuple[OpenTransaction, ...] = ()
    unanswered: tuple[Target | None, ...] = ()
    """Clusters of which it is not known; none but for a sweep."""


class ListOpen(msgspec.Struct, frozen=True):
    """Answer: a Listing of the transactions on these clusters whose ids begin as the identity's do, that have been open for so
    long, and of which no id says that they are decided on elsewhere."""

    clusters: tuple[Target | None, ...] = (None,)
    is_for_sweep: bool = False
    """Nothing depends on it: a cluster may leave it unanswered."""
    age_ms_min: int = 0


class AbortOrphans(msgspec.Struct, frozen=True):
    """Abort what is open under these ids, pinned or not, as far as it goes: nothing depends on it. Answer: the ids of which it is
    done."""

    orphans: tuple[OpenTransaction, ...]


class Warn(msgspec.Struct, frozen=True):
    """Tell people. Answer: None."""

    text: str


Effect: TypeAlias = TakeOver | Record | CheckStaged | Pin | EndStaged | End | Discard | ListOpen | AbortOrphans | Warn
Answer: TypeAlias = (
    SinkState | bool | Unended | Listing | tuple[Ending, ...] | tuple[str, ...] | tuple[Held, ...] | None
)
Steps: TypeAlias = Generator[Effect, Answer, T]
