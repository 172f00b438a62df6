"""A world in which transactions go wrong: clients, a network, a coordinator and partitions, each as plain as can be.

Requests lie on the network until somebody delivers them: late, in any order, twice. Answers may be lost. Records of the
coordinator are committed when the test says so, or never; markers are written one partition at a time, some of them twice; the
coordinator may begin again from its log at any moment, clients too.

The reference is what a partition holds in the end, beside what its clients have asked for and were told (`Ledger`). It knows
nothing of states, epochs that rise, or records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.support.transactions import COORDINATOR_EPOCH, ID, START_MS, TIMEOUT_MS, init_request, partition
from tidelog.coordination.decision import Decision
from tidelog.coordination.transaction.markers_due import MarkersDue
from tidelog.coordination.transaction.metadata import TransactionMetadata
from tidelog.coordination.transaction.records import transaction_record
from tidelog.coordination.transaction.states import TransactionState
from tidelog.coordination.transaction.transaction_settings import TransactionSettings
from tidelog.coordination.transaction.transaction_shard import TransactionShard
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.model.pending import Pending
from tidelog.wire.internal_records import (
    CoordinatorLog,
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from tidelog.wire.messages.transactions import EndTxnRequest

VERSION = 2
PARTITIONS = tuple(partition("orders", index) for index in range(3))

_COME_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)

Label = str
Pair = tuple[int, int]


# --- partitions ----------------------------------------------------------------------------------------------------------------


@dataclass
class Entry:
    pair: Pair
    transaction: str = ""
    label: Label = ""
    is_marker: bool = False
    is_committed: bool = False


@dataclass
class Partition:
    """What was appended, and the epoch of each producer id, by which a partition fences."""

    entries: list[Entry] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)

    def has_open(self, pair: Pair) -> bool:
        of_producer = [entry for entry in self.entries if entry.pair[0] == pair[0]]
        return bool(of_producer) and not of_producer[-1].is_marker and self.epochs[pair[0]] == pair[1]

    def append(self, pair: Pair, transaction: str, label: Label) -> bool:
        if pair[1] < self.epochs.get(pair[0], -1):
            return False
        self.epochs[pair[0]] = pair[1]
        # Sequence numbers tell a batch that is there already.
        if all(entry.label != label for entry in self.entries):
            self.entries.append(Entry(pair, transaction, label))
        return True

    def mark(self, due: MarkersDue) -> None:
        """By version 2 a marker has a higher epoch than the records; one that is not higher was written before."""
        if due.producer_epoch > self.epochs.get(due.producer_id, -1):
            self.epochs[due.producer_id] = due.producer_epoch
            self.entries.append(
                Entry((due.producer_id, due.producer_epoch), is_marker=True, is_committed=due.is_committed)
            )

    def outcomes(self) -> list[tuple[Entry, bool | None]]:
        """Each record with what the next marker of its producer says; None where none has come."""
        found: list[tuple[Entry, bool | None]] = []
        for position, entry in enumerate(self.entries):
            if not entry.is_marker:
                later = (each for each in self.entries[position:] if each.is_marker and each.pair[0] == entry.pair[0])
                marker = next(later, None)
                found.append((entry, None if marker is None else marker.is_committed))
        return found


# --- clients -------------------------------------------------------------------------------------------------------------------


@dataclass
class Ledger:
    """What clients have asked for and were told, by transaction."""

    acknowledged: dict[str, set[Label]] = field(default_factory=dict)
    asked_to_commit: set[str] = field(default_factory=set)
    told_committed: set[str] = field(default_factory=set)
    told_aborted: set[str] = field(default_factory=set)
    prepared: dict[Pair, str] = field(default_factory=dict)
    """The database of a transaction manager: transactions that are to be committed, whoever comes to do it."""


@dataclass
class Request:
    """On the network. Only the first answer that arrives counts."""

    client: Client
    number: int
    deliver: Callable[[Callable[[Any], None]], None]


class Client:
    """One life of a producer. It does one thing at a time, and asks until it is answered."""

    def __init__(self, world: World, name: str, *, is_two_phase: bool, keeps: bool) -> None:
        self.world = world
        self.name = name
        self.is_two_phase = is_two_phase
        self.keeps = keeps
        self.pair: Pair | None = None
        self.transactions = 0
        self.writes = 0
        self.must_abort = False
        self.is_dead = False
        self.is_recovering = ""
        """The transaction that it has found prepared and has to end; empty where there is none."""
        self._asked = 0
        self._answered = 0
        self._deliver: Callable[[Callable[[Any], None]], None] | None = None
        self._then: Callable[[Any], None] | None = None

    @property
    def transaction(self) -> str:
        return self.is_recovering or f"{self.name}/{self.transactions}"

    @property
    def is_waiting(self) -> bool:
        return self._asked > self._answered

    def step(self, choice: int) -> None:
        """Whatever a client may do now, by a choice of 0 to 15. One that waits asks again."""
        if self.is_dead:
            return
        if self.is_waiting:
            self._send()
        elif self.pair is None:
            self._ask(self._init, self._initialised)
        elif self.is_recovering:
            self._end(commit=self.is_recovering in self.world.ledger.prepared.values())
        elif choice < 9 and not self.must_abort:
            self._write(self.pair, PARTITIONS[choice % len(PARTITIONS)])
        else:
            self._end(commit=choice < 14 and not self.must_abort)

    def prepare(self) -> None:
        """Leave the transaction to whoever comes: from here on it is to be committed. This client does nothing more."""
        ledger = self.world.ledger
        is_ready = not (self.is_dead or self.is_waiting or self.must_abort or self.is_recovering)
        if self.is_two_phase and is_ready and self.pair is not None and ledger.acknowledged.get(self.transaction):
            ledger.prepared[self.pair] = self.transaction
            ledger.asked_to_commit.add(self.transaction)
            self.is_dead = True

    # Requests

    def _ask(self, deliver: Callable[[Callable[[Any], None]], None], then: Callable[[Any], None]) -> None:
        self._asked += 1
        self._deliver, self._then = deliver, then
        self._send()

    def _send(self) -> None:
        assert self._deliver is not None
        self.world.network.append(Request(self, self._asked, self._deliver))

    def hear(self, number: int, answer: Any) -> None:
        """An answer arrives. None, or an error that says so, means to ask again."""
        if number != self._asked or not self.is_waiting or self.is_dead or answer is None:
            return
        error = answer if isinstance(answer, ErrorCode) else ErrorCode.of(answer.error_code)
        if error in _COME_AGAIN:
            return
        self._answered = self._asked
        assert self._then is not None
        self._then(answer)

    def _init(self, then: Callable[[Any], None]) -> None:
        self.world.init(two_phases=self.is_two_phase, keeps=self.keeps, then=then)

    def _initialised(self, answer: Any) -> None:
        assert answer.error_code == ErrorCode.NONE, answer
        self._adopt((answer.producer_id, answer.producer_epoch))
        ongoing = (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        if ongoing != (-1, -1):
            self.is_recovering = self.world.ledger.prepared.get(ongoing, f"whatever {ongoing} has open")

    def _adopt(self, pair: Pair) -> None:
        self.world.note_given(pair, self)
        self.pair = pair
        self.transactions += 1
        self.must_abort = False
        self.is_recovering = ""

    def _write(self, pair: Pair, where: TopicPartition) -> None:
        self.writes += 1
        transaction, label = self.transaction, f"{self.name}:{self.writes}"

        def written(answer: ErrorCode) -> None:
            if answer is ErrorCode.NONE:
                self.world.ledger.acknowledged.setdefault(transaction, set()).add(label)
            else:
                self.must_abort = True

        self._ask(lambda then: self.world.produce(pair, where, transaction, label, then), written)

    def _end(self, *, commit: bool) -> None:
        pair, transaction, ledger = self.pair, self.transaction, self.world.ledger
        assert pair is not None
        if commit:
            ledger.asked_to_commit.add(transaction)

        def ended(answer: Any) -> None:
            if answer.error_code == ErrorCode.NONE:
                (ledger.told_committed if commit else ledger.told_aborted).add(transaction)
                self._adopt((answer.producer_id, answer.producer_epoch))
            elif answer.error_code == ErrorCode.INVALID_TXN_STATE and commit:
                # There is nothing to commit, or it has timed out: what is left is to abort.
                self.must_abort = True
            else:
                self.is_dead = True

        self._ask(lambda then: self.world.end(pair, commit, then), ended)


# --- the world -----------------------------------------------------------------------------------------------------------------


class World:
    """One transactional id, three partitions, and everything between them."""

    def __init__(self, first_epoch: int = 0) -> None:
        self.settings = TransactionSettings(is_two_phase_commit_enabled=True)
        self.now_ms = START_MS
        self.ledger = Ledger()
        self.partitions = {each: Partition() for each in PARTITIONS}
        self.clients: list[Client] = []
        self.network: list[Request] = []
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[tuple[MarkersDue, TopicPartition]] = []
        self.given: dict[Pair, Client] = {}
        self._fresh = 4_000
        self._missing: dict[tuple[str, int, int], set[TopicPartition]] = {}
        self._uncommitted: list[tuple[Decision[Any], Callable[[Any], None]]] = []
        self._lives = 0
        if first_epoch:
            self._begin_at(first_epoch)
        self.shard = self._new_shard()

    def _begin_at(self, epoch: int) -> None:
        known = TransactionMetadata(ID, 3_999, epoch, TIMEOUT_MS, TransactionState.EMPTY, START_MS)
        self.log.append(_row(transaction_record(known, VERSION)))

    def _new_shard(self) -> TransactionShard:
        self._lives += 1
        life = self._lives

        def send_markers(due: MarkersDue) -> None:
            if life == self._lives:
                self._missing[due.transactional_id, due.producer_id, due.producer_epoch] = set(due.partitions)
                self.markers += [(due, each) for each in due.partitions]

        self.shard = TransactionShard(self.settings, COORDINATOR_EPOCH + life, send_markers)
        for offset, (key, value) in enumerate(self.log):
            record = decode_coordinator_record(CoordinatorLog.TRANSACTION_STATE, key, value)
            self.shard.replay(record, offset, -1, self.now_ms)
        for decision in self.shard.loaded(self.now_ms):
            self._carry_out(decision, _nobody)
        return self.shard

    # The coordinator's host

    def _carry_out(self, decision: Decision[Any], then: Callable[[Any], None]) -> None:
        assert not isinstance(decision.answer, Pending)
        if decision.records:
            self._uncommitted.append((decision, then))
            return
        if decision.settled is not None:
            decision.settled(ErrorCode.NONE)
        then(decision.answer)

    def commit(self, how_many: int = 1) -> None:
        """The oldest records are committed, in their order."""
        for _ in range(min(how_many, len(self._uncommitted))):
            decision, then = self._uncommitted.pop(0)
            self.log.extend(_row(each) for each in decision.records)
            assert decision.settled is not None
            decision.settled(ErrorCode.NONE)
            then(decision.answer)

    def lose_records(self) -> None:
        """What was written is not committed, and never will be."""
        decisions, self._uncommitted = self._uncommitted, []
        for decision, then in decisions:
            assert decision.settled is not None
            decision.settled(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            then(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def crash(self, kept: int) -> None:
        """The coordinator begins again. Some of what was written and not answered may be there all the same."""
        if not kept:
            assert self.state() == self._state_of_log(), "what is known is not what was recorded"
        for decision, _then in self._uncommitted[:kept]:
            self.log.extend(_row(each) for each in decision.records)
        self._uncommitted.clear()
        self.markers.clear()
        self._missing.clear()
        self.shard.unload()
        self._new_shard()

    def state(self) -> dict[str, TransactionMetadata]:
        """What is known, without what no record holds."""
        return {
            transactional_id: msgspec.structs.replace(known, last_producer_epoch=-1)
            for transactional_id, known in self.shard._transactions.items()
        }

    def _state_of_log(self) -> dict[str, TransactionMetadata]:
        other = TransactionShard(self.settings, 0, lambda _due: None)
        for offset, (key, value) in enumerate(self.log):
            other.replay(decode_coordinator_record(CoordinatorLog.TRANSACTION_STATE, key, value), offset, -1, 0)
        return dict(other._transactions)

    def advance(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        deadlines = self.shard.deadlines
        while (next_ms := deadlines.next_ms) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            while (due := deadlines.take_due(self.now_ms)) is not None:
                decision = due[1](self.now_ms)
                if decision is not None:
                    self._carry_out(decision, _nobody)
        self.now_ms = end_ms

    # What the broker does with requests

    def init(self, *, two_phases: bool, keeps: bool, then: Callable[[Any], None]) -> None:
        request = init_request(ID, enable_2pc=two_phases, keep_prepared_txn=keeps)
        fresh = self._fresh_id() if self.shard.needs_producer_id(request) else -1
        self._carry_out(self.shard.init_producer_id(request, fresh, self.now_ms), then)

    def end(self, pair: Pair, commit: bool, then: Callable[[Any], None]) -> None:
        request = EndTxnRequest(transactional_id=ID, producer_id=pair[0], producer_epoch=pair[1], committed=commit)
        fresh = self._fresh_id() if self.shard.end_needs_producer_id(request, VERSION) else -1
        self._carry_out(self.shard.end(request, VERSION, self.now_ms, fresh), then)

    def produce(
        self, pair: Pair, where: TopicPartition, transaction: str, label: Label, then: Callable[[Any], None]
    ) -> None:
        """A partition in which the producer's transaction is open needs not ask the coordinator."""
        target = self.partitions[where]

        def append(error: ErrorCode) -> None:
            if error is ErrorCode.NONE and not target.append(pair, transaction, label):
                then(ErrorCode.INVALID_PRODUCER_EPOCH)
            else:
                then(error)

        if target.has_open(pair):
            append(ErrorCode.NONE)
        else:
            self._carry_out(self.shard.add_partitions(ID, *pair, [where], VERSION, self.now_ms), append)

    def write_marker(self, which: int, *, is_repeated: bool) -> None:
        """One of the markers that are due, whichever."""
        if not self.markers:
            return
        position = which % len(self.markers)
        due, where = self.markers[position]
        if not is_repeated:
            del self.markers[position]
        self.partitions[where].mark(due)
        missing = self._missing.get((due.transactional_id, due.producer_id, due.producer_epoch), set())
        missing.discard(where)
        if not missing:
            decision = self.shard.markers_written(ID, due.producer_id, due.producer_epoch, self.now_ms)
            self._carry_out(decision, _nobody)

    def _fresh_id(self) -> int:
        self._fresh += 1
        return self._fresh

    # The network

    def deliver(self, which: int, *, is_repeated: bool, is_answer_lost: bool) -> None:
        """One of the requests, whichever. It may stay on the network, to come again."""
        if not self.network:
            return
        position = which % len(self.network)
        request = self.network[position]
        if not is_repeated:
            del self.network[position]

        def answer(given: Any) -> None:
            if not is_answer_lost:
                request.client.hear(request.number, given)

        request.deliver(answer)

    def new_client(self, *, is_two_phase: bool, keeps: bool) -> None:
        self.clients.append(Client(self, f"c{len(self.clients)}", is_two_phase=is_two_phase, keeps=keeps))

    def note_given(self, pair: Pair, client: Client) -> None:
        """No two clients are ever given the same producer id and epoch, and none gets one twice."""
        assert pair not in self.given, f"{pair} was given to {self.given[pair].name} and then to {client.name}"
        self.given[pair] = client

    # The end

    @property
    def is_quiet(self) -> bool:
        return not (self.network or self._uncommitted or self.markers)

    def go_well(self, client: Client, choice: int) -> None:
        """A client does something, and all that follows from it happens at once."""
        client.step(choice)
        self.deliver(len(self.network) - 1, is_repeated=False, is_answer_lost=False)
        self.commit(len(self._uncommitted))
        while self.markers:
            self.write_marker(0, is_repeated=False)
        self.commit(len(self._uncommitted))

    def settle(self) -> None:
        """Everything that is under way arrives, and whatever is left open times out."""
        for _ in range(200):
            if self.is_quiet:
                break
            while self.network:
                self.deliver(0, is_repeated=False, is_answer_lost=False)
            self.commit(len(self._uncommitted))
            while self.markers:
                self.write_marker(0, is_repeated=False)
        assert self.is_quiet

    def check(self) -> None:
        """What every reader must be able to rely on, now and at any time."""
        ledger = self.ledger
        assert not ledger.told_committed & ledger.told_aborted
        visible: dict[str, set[Label]] = {}
        outcomes: dict[str, set[bool]] = {}
        for target in self.partitions.values():
            for entry, outcome in target.outcomes():
                if outcome is None:
                    continue
                outcomes.setdefault(entry.transaction, set()).add(outcome)
                if outcome:
                    visible.setdefault(entry.transaction, set()).add(entry.label)
        for transaction, found in outcomes.items():
            assert len(found) == 1, f"{transaction} is half committed"
        for transaction in visible:
            assert transaction in ledger.asked_to_commit, f"nobody has asked to commit {transaction}"
            assert transaction not in ledger.told_aborted, f"{transaction} was said to be aborted"

    def check_end(self) -> None:
        """Once everything has settled, what was promised is there."""
        self.check()
        visible = {
            entry.label for target in self.partitions.values() for entry, outcome in target.outcomes() if outcome
        }
        for transaction in self.ledger.told_committed:
            missing = self.ledger.acknowledged.get(transaction, set()) - visible
            assert not missing, f"{transaction} is committed without {missing}"
        known = self.state().get(ID)
        is_open = known is not None and known.state is TransactionState.ONGOING and known.is_two_phase
        for where, target in self.partitions.items():
            for entry, outcome in target.outcomes():
                is_known_open = is_open and known is not None and where in known.partitions
                assert outcome is not None or is_known_open, f"{entry.label} hangs: nobody will ever decide it"


def _nobody(_answer: object) -> None:
    """Nobody waits."""


def _row(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    value = None if record.value is None else encode_coordinator_value(record.value, record.version)
    return encode_coordinator_key(record.key), value
