"""The exactly-once sink's protocol: what a driver does to make a batch count, step by step. Pure.

    steps = commit(identity, run, BatchWork.of_topic(batch_id, participants))
    effect = next(steps)
    while True:
        effect = steps.send(do(effect))             # until StopIteration

Each effect is done before the next one is asked for, and answered with what its class says. A driver may die before, in the
middle of, or after any of them, and whatever keeps an effect from being done is the same as dying there: whoever comes next goes
on from what is recorded.

    commit            TakeOver   [claim]   [finish]   ListOpen   Record decision   finish   sweep
    commit, replay    TakeOver   [claim]   [finish]   End, abort   sweep
    abort             TakeOver   [claim]   End, abort   [finish]   sweep

    claim             ListOpen   Record owner              where another run has the sink
    finish            End, commit   Record finished        what is decided
    sweep             ListOpen   AbortOrphans

Three rules carry it; docs/internals/spark-sink.md has the argument for every step.

1. A batch counts from the moment at which its decision is recorded; before that all of its transactions are seen to be open.
2. What a decision names is committed, by whoever finds it, and by nobody aborted, until it is recorded as finished.
3. A transaction of another run is aborted only after that run is recorded as superseded, from which moment it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from enum import Enum
from typing import TypeAlias, TypeVar, cast

import msgspec

from tidelog.spark.errors import (
    BatchOrderError,
    LostTransactionError,
    SinkError,
    SupersededError,
    UndecidedError,
    UnfinishedError,
)
from tidelog.spark.sink.sink_batch import BatchWork
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity, parse_transactional_id
from tidelog.spark.sink.sink_state import Decision, SinkState

T = TypeVar("T")

# A driver that is fenced looks again whether it is still the owner: an older one that did not know better has then had its turn.
TAKEOVERS_MAX = 5
# A run that has not claimed the sink may be about to. One with a transaction that is open for longer than clusters allow where
# there is no two-phase commit has most likely died; where there is, nobody else would ever end it.
STRANGER_AGE_MS_MAX = 15 * 60_000
# A sentence names so many partitions of those that are lost.
_NAMED_MAX = 20


class Ending(Enum):
    """What became of a transaction that was to be ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The cluster has forgotten it, or somebody else has used its transactional id."""


class TakeOver(msgspec.Struct, frozen=True):
    """Take the decider's transactional id from whoever has it, then read the newest state. Answer: it, or None."""


class Record(msgspec.Struct, frozen=True):
    """Write a state, as the decider. Answer: whether it is written; False where another one has taken over."""

    state: SinkState


class End(msgspec.Struct, frozen=True):
    """End transactions, side by side, in any order. Answer: the Ending of each. One that has ended before is not an error."""

    participants: tuple[Participant, ...]
    is_committed: bool


class OpenTransaction(msgspec.Struct, frozen=True):
    """A transaction that is open now."""

    transactional_id: str
    producer_id: int


class ListOpen(msgspec.Struct, frozen=True):
    """Answer: the OpenTransactions whose ids begin as the identity's do, and that have been open for so long. For a sweep it
    may as well be none, if that fails."""

    is_for_sweep: bool = False
    age_ms_min: int = 0


class AbortOrphans(msgspec.Struct, frozen=True):
    """Abort what is open under these ids, as far as it goes: nothing depends on it. Answer: the ids of which it is done."""

    transactional_ids: tuple[str, ...]


Effect: TypeAlias = TakeOver | Record | End | ListOpen | AbortOrphans
Answer: TypeAlias = SinkState | bool | tuple[Ending, ...] | tuple[OpenTransaction, ...] | tuple[str, ...] | None
Steps: TypeAlias = Generator[Effect, Answer, T]


class Recovered(msgspec.Struct, frozen=True):
    """What `recover` found and did."""

    state: SinkState
    committed: tuple[Participant, ...]
    aborted: tuple[str, ...]
    lost: tuple[Participant, ...]


def commit(identity: SinkIdentity, run: str, work: BatchWork) -> Steps[None]:
    """Make a batch count. SinkError where it does not, or nobody knows yet whether it does."""
    _check(work)
    return _again_if_fenced(identity, lambda: _Turn(identity, run).commit(work))


def abort(identity: SinkIdentity, run: str, work: BatchWork) -> Steps[None]:
    """Make it not count, unless it is decided."""
    _check(work)
    return _again_if_fenced(identity, lambda: _Turn(identity, run).abort(work))


def _check(work: BatchWork) -> None:
    if work.staged or any(each.cluster is not None for each in work.topics):
        raise SinkError("this release decides on topics of one cluster alone")


def recover(identity: SinkIdentity, run: str, *, accept_loss: bool = False) -> Steps[Recovered]:
    """End whatever is open. With `accept_loss` a decided batch that cannot be had in full counts as it is."""
    return _again_if_fenced(identity, lambda: _Turn(identity, run).recover(accept_loss=accept_loss))


class _FencedError(Exception):
    """Another decider has come in between."""


def _again_if_fenced(identity: SinkIdentity, turn: Callable[[], Steps[T]]) -> Steps[T]:
    for _ in range(TAKEOVERS_MAX):
        try:
            return (yield from turn())
        except _FencedError:
            continue
    raise UnfinishedError(f"another process keeps taking over the sink of {identity}: stop one of the two")


class _Turn:
    """One attempt to do what Spark asks, as the decider all the while."""

    def __init__(self, identity: SinkIdentity, run: str) -> None:
        self._identity = identity
        self._run = run

    def commit(self, work: BatchWork) -> Steps[None]:
        batch_id, participants = work.batch_id, work.participants
        state = yield from self._owned_state()
        known: frozenset[Participant] = frozenset()
        if (decision := state.decision) is not None:
            known = frozenset(decision.participants)
            endings = yield from self._end(decision.participants, is_committed=True)
            if all(each is Ending.COMMITTED for each in endings):
                state = yield from self._record(state.with_finished(decision.finished))
            elif decision.batch_id != batch_id or not _came_to_nothing(endings):
                raise self._lost(decision, endings)
        if state.finished_batch_id is not None and batch_id <= state.finished_batch_id:
            if batch_id < state.finished_batch_id:
                raise BatchOrderError(
                    f"batch {batch_id} of {self._identity} comes after batch {state.finished_batch_id} was written: the "
                    "checkpoint is an old one; use the newest, or a new one to write everything again"
                )
            # A replay: these rows are there already.
            yield from self._end(tuple(each for each in participants if each not in known), is_committed=False)
        elif participants:
            state = yield from self._decide(state, work)
        else:
            state = yield from self._record(state.with_finished(Decision.of(work).finished))
        yield from self._sweep(state)

    def abort(self, work: BatchWork) -> Steps[None]:
        batch_id, participants = work.batch_id, work.participants
        state = yield from self._owned_state()
        undecided = tuple(each for each in participants if each.transactional_id not in state.named_ids)
        yield from self._end(undecided, is_committed=False)
        lost: SinkError | None = None
        if (decision := state.decision) is not None:
            endings = yield from self._end(decision.participants, is_committed=True)
            if all(each is Ending.COMMITTED for each in endings):
                state = yield from self._record(state.with_finished(decision.finished))
            elif decision.batch_id != batch_id or not _came_to_nothing(endings):
                lost = self._lost(decision, endings)
        yield from self._sweep(state)
        if lost is not None:
            raise lost

    def recover(self, *, accept_loss: bool) -> Steps[Recovered]:
        state = yield from self._owned_state()
        committed: list[Participant] = []
        lost: list[Participant] = []
        if (decision := state.decision) is not None:
            endings = yield from self._end(decision.participants, is_committed=True)
            for participant, ending in zip(decision.participants, endings, strict=True):
                (committed if ending is Ending.COMMITTED else lost).append(participant)
            if accept_loss or not lost:
                state = yield from self._record(state.with_finished(decision.finished))
        aborted = yield from self._sweep(state)
        return Recovered(state, tuple(committed), aborted, tuple(lost))

    # The parts of it.

    def _owned_state(self) -> Steps[SinkState]:
        """Take over, and claim what another run has."""
        state = cast("SinkState | None", (yield TakeOver()))
        if state is None:
            state = SinkState(self._identity.prefix, owner="")
        if state.prefix != self._identity.prefix:
            raise SinkError(
                f"{self._identity} was written with transactionalIdPrefix={state.prefix}, now it is {self._identity.prefix}: "
                "go on with the former, since what is open has its name"
            )
        if self._run in state.superseded:
            raise SupersededError(
                f"a newer run of {self._identity} ({state.owner}) has taken over from this one ({self._run}), which ends here"
            )
        if state.owner == self._run:
            return state
        # Whatever is open now belongs to this run or to one that it takes the place of.
        runs = self._ours((yield from self._open())).values()
        return (yield from self._record(state.claimed(self._run, runs)))

    def _decide(self, state: SinkState, work: BatchWork) -> Steps[SinkState]:
        batch_id, participants = work.batch_id, work.participants
        is_open = {(each.transactional_id, each.producer_id) for each in (yield from self._open())}
        missing = [each for each in participants if (each.transactional_id, each.producer_id) not in is_open]
        if missing:
            raise UndecidedError(
                f"batch {batch_id} of {self._identity} is not written: {len(missing)} of its {len(participants)} transactions, "
                f"such as {missing[0].transactional_id}, have ended by time-out or from outside; smaller batches take less time"
            )
        state = yield from self._record(state.decided(decision := Decision.of(work)))
        endings = yield from self._end(participants, is_committed=True)
        if _came_to_nothing(endings):
            raise UndecidedError(
                f"batch {batch_id} of {self._identity} is not written: its transactions ran into their time-out while it was "
                "decided; start the query again"
            )
        if not all(each is Ending.COMMITTED for each in endings):
            raise self._lost(decision, endings)
        return (yield from self._record(state.with_finished(decision.finished)))

    def _sweep(self, state: SinkState) -> Steps[tuple[str, ...]]:
        """Abort what no decision names: of this run, whose batch is over, and of runs that can decide nothing."""
        ours = self._ours((yield from self._open(is_for_sweep=True)))
        known = {self._run, *state.superseded}
        if any(run not in known for run in ours.values()):
            old = self._ours((yield from self._open(is_for_sweep=True, age_ms_min=STRANGER_AGE_MS_MAX)))
            if strangers := set(old.values()) - known:
                state = yield from self._record(state.claimed(self._run, sorted(strangers)))
        gone = {self._run, *state.superseded}
        named = state.named_ids
        orphans = tuple(each for each, run in ours.items() if run in gone and each not in named)
        if not orphans:
            return ()
        return cast("tuple[str, ...]", (yield AbortOrphans(orphans)))

    def _ours(self, listed: Iterable[OpenTransaction]) -> dict[str, str]:
        """The runs of this identity's own transactions, by transactional id."""
        found: dict[str, str] = {}
        for each in listed:
            parsed = parse_transactional_id(each.transactional_id, self._identity.prefix)
            if parsed is not None and parsed.identity == self._identity:
                found[each.transactional_id] = parsed.run
        return found

    def _lost(self, decision: Decision, endings: Sequence[Ending]) -> LostTransactionError:
        lost = [each for each, end in zip(decision.participants, endings, strict=True) if end is not Ending.COMMITTED]
        partitions = sorted({f"{topic}-{index}" for each in lost for topic, index in each.partitions})
        has_more = len(partitions) > _NAMED_MAX or any(each.partition_count > len(each.partitions) for each in lost)
        more = " and others" if has_more else ""
        return LostTransactionError(
            f"batch {decision.batch_id} of {self._identity} was decided, but {len(lost)} of its {len(decision.participants)} "
            f"transactions, with {sum(each.records for each in lost)} records for {', '.join(partitions[:_NAMED_MAX])}{more}, "
            "ended by time-out before they were committed, or are not known any more: find out what is missing there, then let "
            f"the query go on without it by `tidelog pipeline recover {self._identity.query} --accept-loss`"
        )

    # Single effects, with their answers' types.

    def _record(self, state: SinkState) -> Steps[SinkState]:
        if not (yield Record(state)):
            raise _FencedError
        return state

    def _end(self, participants: tuple[Participant, ...], *, is_committed: bool) -> Steps[tuple[Ending, ...]]:
        if not participants:
            return ()
        return cast("tuple[Ending, ...]", (yield End(participants, is_committed)))

    def _open(self, *, is_for_sweep: bool = False, age_ms_min: int = 0) -> Steps[tuple[OpenTransaction, ...]]:
        return cast("tuple[OpenTransaction, ...]", (yield ListOpen(is_for_sweep, age_ms_min)))


def _came_to_nothing(endings: Sequence[Ending]) -> bool:
    """Whether none of the transactions will ever be seen, for certain: the batch may then be decided anew."""
    return all(each is Ending.ABORTED for each in endings)
