"""The exactly-once sink's protocol: what a driver does to make a batch count, step by step. Pure.

    steps = commit(identity, run, BatchWork.of_topic(batch_id, participants))
    effect = next(steps)
    while True:
        effect = steps.send(do(effect))             # until StopIteration

Each effect is done before the next one is asked for, and answered with what its class says (`sink_effects`). A driver may die
before, in the middle of, or after any of them, and whatever keeps an effect from being done is the same as dying there: whoever
comes next goes on from what is recorded.

    commit            TakeOver   [claim]   [finish]   CheckStaged   Pin   Record decision   finish   sweep
    commit, replay    TakeOver   [claim]   [finish]   AbortOrphans   Discard   sweep
    abort             TakeOver   [claim]   AbortOrphans   [finish]   Discard   sweep

    claim             ListOpen   Record owner                       where another run has the sink
    finish            [End]   EndStaged...   End   Record finished  what is decided: what has a time-out, staged outputs in
                                                                    declared order, then all other topics
    sweep             ListOpen   AbortOrphans

Four rules carry it; docs/internals/spark-sink.md has the argument for every step.

1. A batch counts from the moment at which its decision is recorded; before that all of its transactions are seen to be open, and
   pinned, and everything that is staged is seen to be acceptable.
2. What a decision names is ended, by whoever finds it, and by nobody aborted or discarded, until it is recorded as finished; what
   is staged not after that either.
3. A transaction of another run is aborted only after that run is recorded as superseded, from which moment it decides nothing.
4. A batch is known again by its input. Its number alone never makes rows go away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import msgspec

from tidelog.spark.errors import (
    BatchOrderError,
    SinkError,
    SupersededError,
    UndecidedError,
    UnfinishedError,
)
from tidelog.spark.outputs.staged import StagedOutput, Target
from tidelog.spark.sink.audit_entry import AuditEntry, ReplayedWith
from tidelog.spark.sink.sink_batch import BatchWork, Likeness, TopicOutput, compare
from tidelog.spark.sink.sink_effects import (
    AbortOrphans,
    CheckStaged,
    Discard,
    End,
    Ending,
    EndStaged,
    Held,
    Listing,
    ListOpen,
    OpenTransaction,
    Pin,
    Record,
    Steps,
    T,
    TakeOver,
    Unended,
    Warn,
)
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity, parse_transactional_id
from tidelog.spark.sink.sink_problems import differs, lost, lost_rows, not_reached, stopped
from tidelog.spark.sink.sink_state import Decision, SinkState

# A driver that is fenced looks again whether it is still the owner: an older one that did not know better has then had its turn.
TAKEOVERS_MAX = 5
# A run that has not claimed the sink may be about to. One with a transaction that is open for longer than clusters allow where
# there is no two-phase commit has most likely died; where there is, nobody else would ever end it.
STRANGER_AGE_MS_MAX = 15 * 60_000

NowMs = Callable[[], int]


class Recovered(msgspec.Struct, frozen=True):
    """What `recover` found and did."""

    state: SinkState
    committed: tuple[Participant, ...]
    ended: tuple[str, ...]
    """Sinks whose staged rows count, now or from before."""
    aborted: tuple[str, ...]
    lost: tuple[Participant, ...]
    stopped: tuple[str, ...]
    """Sentences about sinks that do not take their rows."""
    skipped: tuple[str, ...]
    staged: tuple[str, ...]
    """All sinks with staged rows that the decision named, of which some may be skipped."""


def commit(identity: SinkIdentity, run: str, work: BatchWork, *, now_ms: NowMs = lambda: 0) -> Steps[None]:
    """Make a batch count. SinkError where it does not, or nobody knows yet whether it does."""
    is_first = True

    def turn() -> Steps[None]:
        nonlocal is_first
        # Once fenced, somebody else has written for it: then there is something to be found.
        is_fresh, is_first = work.is_once and is_first, False
        return _Turn(identity, run, work, now_ms).commit(is_fresh=is_fresh)

    return _again_if_fenced(identity, turn)


def abort(identity: SinkIdentity, run: str, work: BatchWork, *, now_ms: NowMs = lambda: 0) -> Steps[None]:
    """Make it not count, unless it is decided."""
    return _again_if_fenced(identity, lambda: _Turn(identity, run, work, now_ms).abort())


def recover(
    identity: SinkIdentity,
    run: str,
    *,
    accept_loss: bool = False,
    skip_sinks: Iterable[str] = (),
    skips_unreached: bool = False,
    now_ms: NowMs = lambda: 0,
) -> Steps[Recovered]:
    """End whatever is open. With `accept_loss` a decided batch that cannot be had in full counts as it is; `skip_sinks` are those
    that it counts without, if they refuse their rows, or with `skips_unreached` if nobody can tell whether they have them."""
    skipped = frozenset(skip_sinks)
    work = BatchWork(-1)

    def turn() -> Steps[Recovered]:
        return _Turn(identity, run, work, now_ms).recover(
            accept_loss=accept_loss, skip_sinks=skipped, skips_unreached=skips_unreached
        )

    return _again_if_fenced(identity, turn)


class _FencedError(Exception):
    """Another decider has come in between."""


def _again_if_fenced(identity: SinkIdentity, turn: Callable[[], Steps[T]]) -> Steps[T]:
    for _ in range(TAKEOVERS_MAX):
        try:
            return (yield from turn())
        except _FencedError:
            continue
    raise UnfinishedError(f"another process keeps taking over the sink of {identity}: stop one of the two")


class _Finish(msgspec.Struct, frozen=True):
    """What became of the outputs of a decision."""

    state: SinkState
    endings: tuple[Ending, ...] = ()
    unended: tuple[tuple[StagedOutput, Unended], ...] = ()

    @property
    def came_to_nothing(self) -> bool:
        """Whether none of it will ever be seen, for certain: the batch may then be decided anew."""
        decision = self.state.decision
        return decision is not None and not decision.staged and all(each is Ending.ABORTED for each in self.endings)


class _Turn:
    """One attempt to do what Spark asks, as the decider all the while."""

    def __init__(self, identity: SinkIdentity, run: str, work: BatchWork, now_ms: NowMs) -> None:
        self._identity = identity
        self._run = run
        self._work = work
        self._now_ms = now_ms
        self._clusters = _unique([None, *(each.cluster for each in work.topics)])
        """Where transactions of this run, or named by the open decision, may be."""

    def commit(self, *, is_fresh: bool) -> Steps[None]:
        work = self._work
        if is_fresh and not (work.participants or work.staged):
            # Nothing is recorded of it, so that there is nothing to decide either.
            yield from self._sweep(SinkState(self._identity.prefix, self._run))
            return
        state = yield from self._owned_state(is_fresh=is_fresh)
        named = state.named_ids
        if state.decision is not None:
            done = yield from self._finish(state)
            if state.decision.batch_id != work.batch_id or not done.came_to_nothing:
                self._check_finished(done)
            state = done.state
        if state.finished_batch_id is not None and work.batch_id <= state.finished_batch_id:
            state = yield from self._replay(state, named)
        elif work.participants or work.staged:
            state = yield from self._decide(state)
        else:
            # Without rows nothing has to be ended: it is decided and finished by one record.
            state = yield from self._record_finished(state, self._decided_now(work))
        yield from self._sweep(state)

    def abort(self) -> Steps[None]:
        state = yield from self._owned_state()
        yield from self._abort_orphans(self._own_orphans(state.named_ids))
        problem: SinkError | None = None
        if state.decision is not None:
            done = yield from self._finish(state)
            if state.decision.batch_id != self._work.batch_id or not done.came_to_nothing:
                problem = self._problem(done)
            state = done.state
        yield from self._discard(state)
        yield from self._sweep(state)
        if problem is not None:
            raise problem

    def recover(self, *, accept_loss: bool, skip_sinks: frozenset[str], skips_unreached: bool) -> Steps[Recovered]:
        state = yield from self._owned_state(is_for_all=True)
        decision = state.decision
        done = _Finish(state)
        if decision is not None:
            done = yield from self._finish(
                state, skip_sinks=skip_sinks, skips_unreached=skips_unreached, accept_loss=accept_loss
            )
            state = done.state
        aborted = yield from self._sweep(state)
        if decision is None:
            return Recovered(state, (), (), aborted, (), (), (), ())
        each_ending = list(zip(decision.participants, done.endings, strict=True))
        after = state.decision or decision
        skipped = (after if state.decision is not None or state.finished is None else state.finished).skipped
        unended = {output.sink for output, _ in done.unended}
        return Recovered(
            state,
            tuple(each for each, ending in each_ending if ending is Ending.COMMITTED),
            tuple(each.sink for each in decision.staged if each.sink not in unended and each.sink not in skipped),
            aborted,
            tuple(each for each, ending in each_ending if ending is not Ending.COMMITTED),
            tuple(str(stopped(self._identity, decision, output, why)) for output, why in done.unended),
            tuple(skipped),
            tuple(each.sink for each in decision.staged),
        )

    # The parts of it.

    def _owned_state(self, *, is_fresh: bool = False, is_for_all: bool = False) -> Steps[SinkState]:
        """Take over, and claim what another run has."""
        state = cast("SinkState | None", (yield TakeOver(self._run, is_fresh)))
        if state is None:
            state = SinkState(self._identity.prefix, owner=self._run if self._work.is_once else "")
        if state.prefix != self._identity.prefix:
            raise SinkError(
                f"{self._identity} was written with transactionalIdPrefix={state.prefix}, now it is {self._identity.prefix}: "
                "go on with the former, since what is open has its name"
            )
        if self._run in state.superseded:
            # Nobody can decide on what this run has open and no decision names. What it has staged may be what counts.
            yield from self._abort_orphans(self._own_orphans(state.named_ids))
            raise SupersededError(
                f"a newer run of {self._identity} ({state.owner}) has taken over from this one ({self._run}), which ends here"
            )
        used = [] if state.decision is None else [each.cluster for each in state.decision.topics]
        self._clusters = _unique([*self._clusters, *used])
        if state.owner != self._run:
            return (yield from self._claim(state, is_for_all=is_for_all))
        if any(each is not None and each not in state.clusters for each in self._clusters):
            # Before anything is pinned there: from then on somebody has to look.
            state = yield from self._record(state.with_clusters(self._clusters, state.clusters))
        return state

    def _claim(self, state: SinkState, *, is_for_all: bool) -> Steps[SinkState]:
        """Whatever is open now belongs to this run or to one that it takes the place of."""
        found = (yield from self._open((None,))).found
        unanswered: tuple[Target | None, ...] = ()
        # Another cluster may be away, which keeps no other from being ended; or gone for good, if the query has left it.
        left = tuple(each for each in state.clusters if each not in self._clusters)
        if others := (*(each for each in self._clusters if each is not None), *left):
            listing = yield from self._open(others, is_for_sweep=True)
            found += listing.found
            kept = [each for each in left if is_for_all or any(one.cluster == each for one in listing.found)]
            self._clusters = _unique([*self._clusters, *kept])
            unanswered = listing.unanswered
        claimed = state.claimed(self._run, self._ours(found).values()).with_clusters(self._clusters, unanswered)
        return (yield from self._record(claimed))

    def _replay(self, state: SinkState, named: frozenset[str]) -> Steps[SinkState]:
        """These rows are there already, or it is an error. `named` are ids of the decision that was finished just now."""
        work, finished = self._work, state.finished
        assert finished is not None
        if work.batch_id < finished.batch_id:
            raise BatchOrderError(
                f"batch {work.batch_id} of {self._identity} comes after batch {finished.batch_id} was written: the "
                "checkpoint is an old one; use the newest, or a new one to write everything again"
            )
        match compare(finished.input, work.input, work.replay_check):
            case Likeness.DIFFERENT:
                raise differs(self._identity, work, state)
            case Likeness.NUMBER:
                yield Warn(
                    f"batch {work.batch_id} of {self._identity} is taken for a replay by its number alone: an earlier release, "
                    "which did not record its input, has written it"
                )
            case Likeness.OTHER_ROWS:
                assert work.input is not None
                assert finished.input is not None
                yield Warn(
                    f"batch {work.batch_id} of {self._identity} is a replay of the same input, but had {finished.input.rows} "
                    f"rows then and {work.input.rows} now, or others: what was written first counts"
                )
                audit = work.audit and work.audit.replayed(
                    self._now_ms(), ReplayedWith(work.input.rows, work.input.checksum)
                )
                noted = msgspec.structs.replace(finished, replayed_with=work.input)
                state = yield from self._record(msgspec.structs.replace(state, finished=noted), audit)
        yield from self._abort_orphans(self._own_orphans(named))
        yield from self._discard(state)
        return state

    def _decide(self, state: SinkState) -> Steps[SinkState]:
        work = self._work
        if work.staged:
            refusals = cast("tuple[str, ...]", (yield CheckStaged(work.staged)))
            for output, refusal in zip(work.staged, refusals, strict=True):
                if refusal:
                    raise UndecidedError(
                        f"batch {work.batch_id} of {self._identity} is not written: its sink {output.sink} does not take "
                        f"it: {refusal}"
                    )
        decision = self._decided_now(msgspec.structs.replace(work, topics=(yield from self._pinned())))
        state = yield from self._record(state.decided(decision))
        done = yield from self._finish(state)
        if done.came_to_nothing:
            raise UndecidedError(
                f"batch {work.batch_id} of {self._identity} is not written: its transactions ran into their time-out while it "
                "was decided; start the query again"
            )
        self._check_finished(done)
        return done.state

    def _pinned(self) -> Steps[tuple[TopicOutput, ...]]:
        """The batch's topics with what cannot time out any more, where their clusters can do that; elsewhere as they are. All of
        it is open. In the order in which they are ended."""
        topics = tuple(each for each in self._work.topics if each.participants)
        if not topics:
            return ()
        pinned: list[TopicOutput] = []
        missing: list[Participant] = []
        answers = cast("tuple[Held, ...]", (yield Pin(topics)))
        for topic, held in zip(topics, answers, strict=True):
            missing += [
                each for each, found in zip(topic.participants, held.participants, strict=True) if found is None
            ]
            found = tuple(each for each in held.participants if each is not None)
            pinned.append(msgspec.structs.replace(topic, participants=found, has_timeout=held.has_timeout))
        if missing:
            raise UndecidedError(
                f"batch {self._work.batch_id} of {self._identity} is not written: {len(missing)} of its "
                f"{len(self._work.participants)} transactions, such as {missing[0].transactional_id}, have ended by time-out or "
                "from outside; smaller batches take less time"
            )
        return tuple(sorted(pinned, key=lambda each: not each.has_timeout))

    def _finish(
        self,
        state: SinkState,
        *,
        skip_sinks: frozenset[str] = frozenset(),
        skips_unreached: bool = False,
        accept_loss: bool = False,
    ) -> Steps[_Finish]:
        """End what the open decision names, and record it as finished where nothing is left.

        Topics are last, for those who follow a topic and look into a table; but for transactions that have a time-out, since a
        table may take minutes. A staged output that is not ended now keeps no other from being ended: the batch counts, and
        readers of its topics wait for it.
        """
        decision = state.decision
        assert decision is not None
        endings = yield from self._end(tuple(each for each in decision.topics if each.has_timeout))
        unended: list[tuple[StagedOutput, Unended]] = []
        for output in decision.staged:
            if output.sink in decision.skipped:
                continue
            why = cast("Unended | None", (yield EndStaged(output)))
            if why is not None and output.sink in skip_sinks and (why.is_refused or skips_unreached):
                decision = msgspec.structs.replace(decision, skipped=(*decision.skipped, output.sink))
                state = yield from self._record(state.decided(decision))
            elif why is not None:
                unended.append((output, why))
        endings += yield from self._end(tuple(each for each in decision.topics if not each.has_timeout))
        is_whole = accept_loss or all(each is Ending.COMMITTED for each in endings)
        if decision.audit is not None and (missing := lost_rows(decision.topics, endings)):
            # Counted only where it is accepted: else the decision stays as it was recorded.
            decision = msgspec.structs.replace(decision, audit=decision.audit.without(missing))
        if is_whole and not unended:
            state = yield from self._record_finished(state, decision)
        elif is_whole and decision.topics:
            # The transactional ids may be used again, or forgotten by the cluster, while the rest waits for somebody.
            state = yield from self._record(state.decided(msgspec.structs.replace(decision, topics=())))
        return _Finish(state, endings, tuple(unended))

    def _decided_now(self, work: BatchWork) -> Decision:
        return Decision.of(msgspec.structs.replace(work, audit=work.audit and work.audit.decided(self._now_ms())))

    def _record_finished(self, state: SinkState, decision: Decision) -> Steps[SinkState]:
        audit = decision.audit and decision.audit.finished(self._now_ms(), frozenset(decision.skipped))
        after = state.with_finished(decision.finished)
        if self._work.is_once and self._run == state.owner:
            # Nobody asks for it again.
            if not (yield Record(None, audit)):
                raise _FencedError
            return after
        return (yield from self._record(after, audit))

    def _discard(self, state: SinkState) -> Steps[None]:
        """Remove what this work has staged, where it is certain that it does not count."""
        last = state.last_batch_id
        if not self._work.staged or (last is not None and self._work.batch_id < last):
            return
        counts = {*state.protected_manifests, *(() if state.finished is None else state.finished.manifests)}
        if left := tuple(each for each in self._work.staged if each.manifest_path not in counts):
            yield Discard(left)

    def _sweep(self, state: SinkState) -> Steps[tuple[str, ...]]:
        """Abort what no decision names: of this run, whose batch is over, and of runs that can decide nothing."""
        ours = self._ours((yield from self._open(self._clusters, is_for_sweep=True)).found)
        known = {self._run, *state.superseded}
        if any(run not in known for run in ours.values()):
            old = yield from self._open(self._clusters, is_for_sweep=True, age_ms_min=STRANGER_AGE_MS_MAX)
            if strangers := set(self._ours(old.found).values()) - known:
                state = yield from self._record(state.claimed(self._run, sorted(strangers)))
        gone = {self._run, *state.superseded}
        named = state.named_ids
        return (
            yield from self._abort_orphans(
                each for each, run in ours.items() if run in gone and each.transactional_id not in named
            )
        )

    def _ours(self, listed: Iterable[OpenTransaction]) -> dict[OpenTransaction, str]:
        """This identity's own transactions, and their runs."""
        found: dict[OpenTransaction, str] = {}
        for each in listed:
            parsed = parse_transactional_id(each.transactional_id, self._identity.prefix)
            if parsed is not None and parsed.identity == self._identity:
                found[each] = parsed.run
        return found

    def _own_orphans(self, named: frozenset[str]) -> list[OpenTransaction]:
        """What the tasks have handed over and no decision names."""
        return [
            OpenTransaction(each.transactional_id, each.producer_id, topic.cluster)
            for topic in self._work.topics
            for each in topic.participants
            if each.transactional_id not in named
        ]

    # What went wrong.

    def _check_finished(self, done: _Finish) -> None:
        if (problem := self._problem(done)) is not None:
            raise problem

    def _problem(self, done: _Finish) -> SinkError | None:
        """Why a decision is not finished; None where it is."""
        decision = done.state.decision
        if decision is None:
            return None
        if not all(each is Ending.COMMITTED for each in done.endings):
            return lost(self._identity, decision, done.endings)
        for output, why in done.unended:
            if why.is_refused:
                return stopped(self._identity, decision, output, why)
        output, why = done.unended[0]
        return not_reached(self._identity, decision, output, why)

    # Single effects, with their answers' types.

    def _record(self, state: SinkState, audit: AuditEntry | None = None) -> Steps[SinkState]:
        if not (yield Record(state, audit)):
            raise _FencedError
        return state

    def _end(self, topics: tuple[TopicOutput, ...]) -> Steps[tuple[Ending, ...]]:
        if not any(each.participants for each in topics):
            return ()
        return cast("tuple[Ending, ...]", (yield End(topics)))

    def _open(
        self, clusters: tuple[Target | None, ...], *, is_for_sweep: bool = False, age_ms_min: int = 0
    ) -> Steps[Listing]:
        return cast("Listing", (yield ListOpen(clusters, is_for_sweep, age_ms_min)))

    def _abort_orphans(self, orphans: Iterable[OpenTransaction]) -> Steps[tuple[str, ...]]:
        named = tuple(orphans)
        if not named:
            return ()
        return cast("tuple[str, ...]", (yield AbortOrphans(named)))


def _unique(clusters: Iterable[Target | None]) -> tuple[Target | None, ...]:
    """Each once, in order. A target has mappings, and no hash."""
    found: list[Target | None] = []
    for each in clusters:
        if each not in found:
            found.append(each)
    return tuple(found)
