"""One history for two transaction coordinators, ours and Apache Kafka's: the same answers, the same records, byte for byte.

A history is a row of requests by producers that are what they say, late, fenced or wrong, of both versions of the protocol side
by side, with markers that come late, time-outs, and coordinators that begin again from their log. What Kafka's coordinator says
is asked of `tests/compat/TransactionOracle.java`, or read from `tests/fixtures/kafka/transactions.json.xz`, where it was noted.

Four things are decided differently on purpose, each to the benefit of a producer that is in its right, and are left out:
- InitProducerId that names an epoch of the past does not abort what a later producer has open (Kafka aborts it, and then fences);
- one that names another epoch than the last one is told that it is fenced (Kafka: UNKNOWN_SERVER_ERROR);
- EndTxn of version 2 is a repeated one only after an end of version 2 (Kafka tells a fenced producer that it has committed);
- a time-out with the last epoch leaves it to the producer to ask for another producer id (Kafka takes one).
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple, Protocol

from tests.support.transactions import ORDERS, START_MS, TransactionDriver, init_request, partition
from tidelog.coordination.transaction.metadata import CLIENT_EPOCH_MAX, TransactionMetadata
from tidelog.coordination.transaction.states import TransactionState
from tidelog.coordination.transaction.transaction_settings import TransactionSettings
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.wire.internal_records import CoordinatorLog, decode_coordinator_record
from tidelog.wire.messages.internal.transaction_records import TransactionLogValue
from tidelog.wire.messages.transactions import EndTxnRequest

IDS = ("payments", "refunds")
# Of one topic: the order of topics and of partitions in a record is a hash map's in Kafka, and for this one it is ascending.
PARTITIONS = [partition("orders", index) for index in range(3)]
STEPS = 60

Pair = tuple[int, int]
"""A producer id and its epoch."""


class Oracle(Protocol):
    """Whoever knows what Kafka's coordinator says."""

    def ask(self, question: dict[str, Any]) -> Any: ...


class Step(NamedTuple):
    """What happens next. `age` says which of the pairs that were given out is used: 0 is the last; -1 is none."""

    what: str
    transactional_id: str
    age: int
    version: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    pause_ms: int


def random_step(random: Random, *, is_mixed: bool) -> Step:
    kinds = ("init", "add", "add", "add", "verify", "end", "end", "end", "markers", "markers", "time out", "restart")
    what = random.choice(kinds)
    ages = (-1, -1, 0, 1, 2) if what == "init" else (0, 0, 0, 1, 1, 2)
    return Step(
        what=what,
        transactional_id=random.choice(IDS),
        age=random.choice(ages),
        version=random.choice((1, 2)) if is_mixed else 2,
        is_commit=random.random() < 0.6,
        partitions=tuple(PARTITIONS[random.randrange(3) :]),
        pause_ms=random.randrange(5),
    )


def play(oracle: Oracle, seed: int) -> None:
    """Let a whole history happen; AssertionError where the two do not agree."""
    random = Random(seed)
    is_mixed = random.random() < 0.4
    both = Both(oracle, random.choice((2, 2, 1)), random.choice((None, None, 32_763, 32_765, 32_766)))
    for number in range(STEPS):
        both.do(random_step(random, is_mixed=is_mixed), f"step {number} of seed {seed}")


class Both:
    """Two coordinators. With a `start_epoch` two transactions are open, of producers that are at it."""

    def __init__(self, oracle: Oracle, version: int, start_epoch: int | None) -> None:
        self.oracle = oracle
        self.version = version
        self.fresh = 4_000
        settings = TransactionSettings(is_two_phase_commit_enabled=True, transaction_version=lambda: version)
        self.ours = TransactionDriver(settings)
        self.ours.holds_markers = True
        self.pairs: dict[str, list[Pair]] = {each: [(77, 0)] for each in IDS}
        if start_epoch is not None:
            self._begin_at(start_epoch)
        self._load()

    def _begin_at(self, epoch: int) -> None:
        for producer_id, transactional_id in enumerate(IDS, start=900):
            self.ours.plant(
                TransactionMetadata(
                    transactional_id,
                    producer_id,
                    epoch,
                    60_000,
                    TransactionState.ONGOING,
                    START_MS,
                    START_MS,
                    frozenset({ORDERS}),
                    client_transaction_version=2 if self.version == 2 else 0,
                )
            )
            self.pairs[transactional_id].append((producer_id, epoch))

    def _load(self) -> None:
        self._ask("begin", version=self.version, next_producer_id=self.fresh, two_phases=True)
        latest = {key: value for key, value in self.ours.log if value is not None}
        self._ask("load", rows=[[key.hex(), value.hex()] for key, value in latest.items()])

    def _ask(self, what: str, **fields: Any) -> Any:
        return self.oracle.ask({"do": what, "now_ms": self.ours.now_ms, **fields})

    # Steps

    def do(self, step: Step, where: str) -> None:
        self.ours.advance(step.pause_ms)
        if step.what == "restart":
            self.ours = self.ours.restarted()
            self._load()
            return
        recorded, sent = len(self.ours.log), len(self.ours.sent)
        known = self.ours.shard._transactions.get(step.transactional_id)
        given = self.pairs[step.transactional_id]
        pair = (-1, -1) if step.age < 0 else given[max(0, len(given) - 1 - step.age)]
        outcome = self._happen(step, pair, known)
        if outcome is None:
            return
        mine, theirs = outcome
        rows, markers = theirs.pop("rows"), theirs.pop("markers")
        told = f"{where}: {step} with {pair} when {known}"
        assert mine == theirs, told
        assert _comparable(self.ours.log[recorded:]) == _comparable(
            [(bytes.fromhex(key), bytes.fromhex(value)) for key, value in rows]
        ), told
        assert [
            {
                "id": due.producer_id,
                "epoch": due.producer_epoch,
                "commit": due.is_committed,
                "version": due.transaction_version,
            }
            for due in self.ours.sent[sent:]
        ] == markers, told
        self._note(step.transactional_id, mine, recorded)

    def _happen(self, step: Step, pair: Pair, known: TransactionMetadata | None) -> tuple[Any, Any] | None:
        """What we say and what Kafka says; None where they are to differ."""
        match step.what:
            case "init":
                return None if _differs_on_init(known, pair) else self._init(step, pair)
            case "add":
                return self._add(step, pair)
            case "verify":
                return self._verify(step, pair)
            case "end":
                return None if _differs_on_end(known, pair, step.version) else self._end(step, pair)
            case "markers":
                self.ours.write_markers()
                return {}, self._ask("markers")
            case _:
                return {}, self._time_out()

    def _asked(self, step: Step, pair: Pair, **fields: Any) -> Any:
        return self._ask(
            step.what,
            transactional_id=step.transactional_id,
            producer_id=pair[0],
            producer_epoch=pair[1],
            **fields,
        )

    def _init(self, step: Step, pair: Pair) -> tuple[Any, Any]:
        request = init_request(
            step.transactional_id, producer_id=pair[0], producer_epoch=pair[1], enable_2pc=not step.is_commit
        )
        answer = self.ours.carry_out(self.ours.shard.init_producer_id(request, self.fresh + 1, self.ours.now_ms))
        theirs = self._asked(step, pair, timeout_ms=request.transaction_timeout_ms, enable_2pc=request.enable_2pc)
        return _told(answer.error_code, answer.producer_id, answer.producer_epoch), theirs

    def _add(self, step: Step, pair: Pair) -> tuple[Any, Any]:
        error = self.ours.add(*pair, *step.partitions, version=step.version, transactional_id=step.transactional_id)
        theirs = self._asked(step, pair, partitions=[list(each) for each in step.partitions], version=step.version)
        return {"error": error.name}, theirs

    def _verify(self, step: Step, pair: Pair) -> tuple[Any, Any]:
        errors = self.ours.shard.verify_partitions(step.transactional_id, *pair, step.partitions)
        theirs = self._asked(step, pair, partitions=[list(each) for each in step.partitions])
        return {"errors": {str(each): error.name for each, error in errors.items()}}, theirs

    def _end(self, step: Step, pair: Pair) -> tuple[Any, Any]:
        request = EndTxnRequest(
            transactional_id=step.transactional_id,
            producer_id=pair[0],
            producer_epoch=pair[1],
            committed=step.is_commit,
        )
        answer = self.ours.carry_out(self.ours.shard.end(request, step.version, self.ours.now_ms, self.fresh + 1))
        theirs = self._asked(step, pair, commit=step.is_commit, version=step.version)
        return _told(answer.error_code, answer.producer_id, answer.producer_epoch), theirs

    def _time_out(self) -> Any:
        open_ids = [
            each
            for each in IDS
            if (known := self.ours.shard._transactions.get(each)) is not None
            and known.state is TransactionState.ONGOING
            and not known.is_two_phase
            and not known.is_epoch_exhausted
        ]
        for each in open_ids:
            fenced = self.ours.known(each).fenced(self.version, -1, self.ours.now_ms)
            self.ours.carry_out(self.ours.shard._record(fenced, None, self.ours.now_ms))
        return self._ask("time_out", transactional_ids=open_ids)

    def _note(self, transactional_id: str, mine: dict[str, Any], recorded: int) -> None:
        if mine.get("error") == "NONE" and mine.get("id", -1) >= 0:
            self.pairs[transactional_id].append((mine["id"], mine["epoch"]))
        for value in self.ours.values()[recorded:]:
            if value is not None and self.fresh + 1 in (value.producer_id, value.next_producer_id):
                self.fresh += 1


def _told(error: int, producer_id: int, epoch: int) -> dict[str, Any]:
    return {"error": ErrorCode.of(error).name, "id": producer_id, "epoch": epoch}


def _comparable(rows: list[tuple[bytes, bytes | None]]) -> list[Any]:
    """The bytes; of a completion, whose time is in Kafka that of the end, what they say without the time."""
    found: list[Any] = []
    for key, value in rows:
        decoded = decode_coordinator_record(CoordinatorLog.TRANSACTION_STATE, key, value).value
        assert isinstance(decoded, TransactionLogValue)
        if decoded.transaction_status in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
            decoded.transaction_last_update_timestamp_ms = 0
            found.append((key, decoded))
        else:
            found.append((key, value))
    return found


def _differs_on_init(known: TransactionMetadata | None, pair: Pair) -> bool:
    if known is None or pair[0] < 0 or known.state.is_prepared:
        return False
    is_present = pair == (known.producer_id, known.producer_epoch)
    return not is_present and (known.state is TransactionState.ONGOING or known.is_epoch_exhausted)


def _differs_on_end(known: TransactionMetadata | None, pair: Pair, version: int) -> bool:
    if known is None or version < 2 or known.client_transaction_version >= 2:
        return False
    is_after_rotation = known.producer_epoch == 0 and pair == (known.previous_producer_id, CLIENT_EPOCH_MAX)
    return is_after_rotation or pair[1] + 1 == known.producer_epoch
