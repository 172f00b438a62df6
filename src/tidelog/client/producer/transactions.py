"""The transactions of one producer: who it is, what is open, and the requests that open and end it.

    await transactions.init()                      # once: fences whoever had the transactional id before
    transactions.begin()                           # from here on `send` takes records
    await transactions.send_offsets(offsets, group_metadata)
    await transactions.commit()                    # sends what is buffered, waits for all of it, then EndTxn

`transaction_state` has the table of states. Two ways of the protocol, by the cluster's `transaction.version`:

    1    AddPartitionsToTxn goes before the first batch of a partition, AddOffsetsToTxn before offsets. The epoch stays;
         after an error InitProducerId raises it.
    2    (KIP-890) Produce and TxnOffsetCommit add what they bring, and each EndTxn raises the epoch.

Which of them is looked up when a transaction has ended, never within one. A commit or abort that takes longer than its caller
waits goes on by itself; the same call made again waits for the same outcome. Everything runs on the loop's thread but `begin`,
which changes only what is at rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from tidelog.client.connections import Connections
from tidelog.client.consumer.records import GroupMetadata, OffsetAndMetadata
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import (
    ClientError,
    ClosedError,
    ProducerFencedError,
    RefusedError,
    TimedOutError,
    TransactionAbortableError,
    TransactionStateError,
)
from tidelog.client.producer.accumulator import PartitionQueue
from tidelog.client.producer.options import ProducerOptions
from tidelog.client.producer.prepared_transaction import PreparedTransaction
from tidelog.client.producer.sequences import ProducerIdentity
from tidelog.client.producer.transaction_requests import CoordinatorRefusal, TransactionRequests
from tidelog.client.producer.transaction_state import OPEN, UNFINISHED, State, may_move, move
from tidelog.client.producer.transaction_verdicts import Verdict, error_for, verdict_of_batch
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.producers import InitProducerIdResponse

log = logging.getLogger(__name__)

T = TypeVar("T")

FEATURE = "transaction.version"

# Kafka's words for what a transactional id is at.
_ONGOING = "Ongoing"
_ENDED = frozenset({"CompleteCommit", "CompleteAbort"})

# Above this a Produce belongs to version 2 of the protocol.
PRODUCE_VERSION_1_MAX = 11


class Sending(Protocol):
    """The sender, as transactions see it."""

    identity: ProducerIdentity

    async def flush(self) -> None: ...
    def run(self) -> None: ...
    def give_up_unsent(self, error: ClientError, *, numbered_too: bool) -> None: ...


class Transactions:
    """One for each producer with a `transactional_id`. `admit` lets `send` take records (None) or refuse them with an error."""

    def __init__(
        self,
        seams: ClientSeams,
        connections: Connections,
        requests: TransactionRequests,
        options: ProducerOptions,
        sender: Sending,
        admit: Callable[[Callable[[], ClientError] | None], None],
    ) -> None:
        assert options.transactional_id is not None
        self._loop = seams.loop
        self._connections = connections
        self._requests = requests
        self._options = options
        self._sender = sender
        self._admit = admit
        self.transactional_id = options.transactional_id
        self.state = State.UNINITIALIZED
        self.error: RefusedError | None = None
        """Why the transaction must be aborted, or the producer cannot go on."""
        self.prepared: PreparedTransaction | None = None
        self.is_version_2 = False
        self._has_begun = False
        """Whether the coordinator knows, or may know, of the open transaction."""
        self._is_doubtful = False
        """Whether that is unknown: no request that opens it was answered well."""
        self._needs_epoch = False
        self._offsets_under_way = 0
        self._added: set[TopicPartition] = set()
        self._to_add: dict[TopicPartition, None] = {}
        self._adding: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._ending_call = ""
        self._close_gate()

    # What an application calls.

    async def init(self, *, keep_prepared: bool, timeout_ms: float, unless_open: bool = False) -> None:
        """Become the one producer of the transactional id. What an earlier one left open is aborted first, or kept; with
        `unless_open` it is left alone, and TransactionStateError says so."""
        if keep_prepared and not self._options.transaction_two_phase_commit_enable:
            raise TransactionStateError("keep_prepared_txn needs transaction_two_phase_commit_enable=True")
        self._move(State.INITIALIZING, "init_transactions")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if unless_open:
                    await self._check_nothing_open()
                answer = await self._init_producer_id(None, keep_prepared=keep_prepared)
        except BaseException as error:
            if self.state is State.INITIALIZING:
                self._set(State.UNINITIALIZED)
            if not isinstance(error, TimeoutError):
                raise
            raise TimedOutError(
                f"the coordinator of transactional id {self.transactional_id!r} had no good answer within {timeout_ms:g} ms"
                f"{self._requests.reason}; call init_transactions again"
            ) from None
        self.is_version_2 = self._has_version_2
        if answer.ongoing_txn_producer_id >= 0:
            self.prepared = PreparedTransaction(
                self.transactional_id, answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch
            )
            self._has_begun = True
            self._set(State.PREPARED)
        else:
            self._set(State.READY)

    async def _check_nothing_open(self) -> None:
        try:
            found = await self._requests.describe()
        except CoordinatorRefusal as refused:
            if refused.reason.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return
            raise refused.reason from None
        if found.transaction_state == _ONGOING:
            raise TransactionStateError(
                f"a transaction is open under transactional id {self.transactional_id!r}: it is left alone"
            )

    def begin(self) -> None:
        """Open a transaction. The cluster hears of it with the first record."""
        self._move(State.IN_TRANSACTION, "begin_transaction")
        self._admit(None)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, *, timeout_ms: float
    ) -> None:
        """Commit a group's offsets with the transaction, if it is committed."""
        self._check(State.IN_TRANSACTION, "send_offsets_to_transaction")
        if not offsets:
            return
        self._offsets_under_way += 1
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._send_offsets(offsets, group)
        except BaseException as error:
            if isinstance(error, ClientError):
                raise
            # Given up by the caller: nobody knows how far it came.
            reason = TimedOutError(
                f"the offsets of group {group.group_id!r} had no good answer in {timeout_ms:g} ms{self._requests.reason}"
            )
            failed = self._fail(Verdict.ABORTABLE, reason)
            if not isinstance(error, TimeoutError):
                raise
            raise failed from None
        finally:
            self._offsets_under_way -= 1

    async def prepare(self, *, timeout_ms: float) -> PreparedTransaction:
        """Have everything written, and leave the end to whoever brings what is returned."""
        if not self._options.transaction_two_phase_commit_enable:
            raise TransactionStateError("prepare_transaction needs transaction_two_phase_commit_enable=True")
        return await self._prepare_in_time("prepare_transaction", timeout_ms)

    async def hand_over(self, *, timeout_ms: float) -> PreparedTransaction:
        """The same, also where the transaction has a time-out."""
        return await self._prepare_in_time("hand_over_transaction", timeout_ms)

    async def _prepare_in_time(self, call: str, timeout_ms: float) -> PreparedTransaction:
        if self._ending is None:
            self._move(State.PREPARING, call)
        await self._end_in_time(call, self._prepare, timeout_ms)
        assert self.prepared is not None
        return self.prepared

    async def resume(self, *, timeout_ms: float) -> None:
        """Go on after another process has ended what was prepared, under the epoch that this has left."""
        self._check(State.PREPARED, "resume_transactions")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                found = await self._heard(self._requests.describe())
                identity = self._sender.identity
                is_own = (found.producer_id, found.producer_epoch) == (identity.producer_id, identity.epoch)
                if found.transaction_state == _ONGOING and is_own:
                    raise TransactionStateError(
                        "resume_transactions is not possible now: nobody has ended the transaction"
                    )
                if found.transaction_state not in _ENDED:
                    reason = RefusedError(
                        ErrorCode.PRODUCER_FENCED, "the transactional id has gone on without this producer"
                    )
                    raise self._fail(Verdict.FENCED, reason)
                identity.given(found.producer_id, found.producer_epoch)
                await self._ended()
        except TimeoutError:
            raise TimedOutError(
                f"the coordinator of transactional id {self.transactional_id!r} had no good answer within {timeout_ms:g} ms"
                f"{self._requests.reason}; call resume_transactions again"
            ) from None

    async def holds_id(self, *, timeout_ms: float) -> bool:
        """Whether nobody has taken the transactional id since, as its coordinator knows."""
        self._check(State.READY, "holds_transactional_id")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                found = await self._heard(self._requests.describe())
        except TimeoutError:
            raise TimedOutError(
                f"the coordinator of transactional id {self.transactional_id!r} had no good answer within {timeout_ms:g} ms"
                f"{self._requests.reason}"
            ) from None
        identity = self._sender.identity
        return (found.producer_id, found.producer_epoch) == (identity.producer_id, identity.epoch)

    async def commit(self, *, timeout_ms: float) -> None:
        """Commit once everything is written."""
        if self._ending is None:
            self._move(State.COMMITTING, "commit_transaction")
        await self._end_in_time("commit_transaction", self._commit, timeout_ms)

    async def abort(self, *, timeout_ms: float) -> None:
        """Give up what was not sent, and have the rest aborted."""
        if self._ending is None:
            if self.state is State.FAILED:
                raise self._raised()
            self._move(State.ABORTING, "abort_transaction", heals=True)
        await self._end_in_time("abort_transaction", self._abort, timeout_ms)

    async def complete(self, recorded: PreparedTransaction, *, timeout_ms: float) -> bool:
        """Commit the prepared transaction if it is the recorded one, abort it if it is not. Whether it was committed."""
        if self._ending is None:
            self._check(State.PREPARED, "complete_transaction")
            is_recorded = recorded == self.prepared
        else:
            is_recorded = self._ending_call == "commit_transaction"
        if is_recorded:
            await self.commit(timeout_ms=timeout_ms)
        else:
            await self.abort(timeout_ms=timeout_ms)
        return is_recorded

    @property
    def is_in_transaction(self) -> bool:
        """Whether one is open that its producer has to end."""
        return self.state in UNFINISHED

    async def abort_quietly(self) -> None:
        """Abort on the way out of a block that failed: its own error is the one to hear about."""
        try:
            await self.abort(timeout_ms=self._options.max_block_ms)
        except ClientError as error:
            log.warning("the transaction was not aborted: %s", error)

    async def finish(self) -> None:
        """Before the end: what is being ended may come to its end, and what is open is aborted. Never raises a ClientError."""
        try:
            if self._ending is not None:
                await asyncio.wait({self._ending})
                ending, self._ending = self._ending, None
                if not ending.cancelled():
                    # Nobody has asked for its outcome again, and nobody will.
                    ending.exception()
            if self.state in UNFINISHED:
                log.info(
                    "transactional id %r: what is open is aborted, since the producer is closed", self.transactional_id
                )
                await self.abort(timeout_ms=self._options.max_block_ms)
        except ProducerFencedError as error:
            # Whoever has the id now has ended it.
            log.info("%s", error)
        except ClientError as error:
            log.warning("the open transaction was left to its time-out: %s", error)

    def close(self) -> None:
        """No more tasks."""
        for task in (self._adding, self._ending):
            if task is not None and not task.cancel() and not task.cancelled():
                task.exception()

    # What the sender asks and tells.

    def admits(self, queue: PartitionQueue) -> bool:
        """Whether a partition's next batch may leave. One that was sent before always may: its fate has to be known."""
        if queue.unsent[0].has_sequence:
            return self.state is not State.FAILED
        if self.state not in OPEN:
            return False
        if self.is_version_2:
            return True
        partition = TopicPartition(queue.topic, queue.index)
        if partition in self._added:
            return True
        if partition not in self._to_add:
            self._to_add[partition] = None
            if self._adding is None:
                self._adding = self._loop.create_task(self._add_partitions())
        return False

    @property
    def produce_version_max(self) -> int | None:
        """Versions above it would have the broker add the partition itself."""
        return None if self.is_version_2 else PRODUCE_VERSION_1_MAX

    def batch_left(self) -> None:
        """A batch is on its way: with version 2 that is what opens the transaction."""
        self._has_begun = True

    def batch_failed(self, error: ClientError) -> None:
        """A batch was given up, and with it the transaction."""
        if self.state in OPEN:
            self._fail(verdict_of_batch(error.code), error)
        elif self.state is State.ABORTING:
            # Its number was used, and nobody knows whether the broker has it.
            self._needs_epoch = True

    # States.

    def _move(self, to: State, call: str, *, heals: bool = False) -> None:
        if self._ending is not None:
            raise TransactionStateError(
                f"{call} is not possible now: call {self._ending_call} again to learn its outcome"
            )
        if self._offsets_under_way:
            raise TransactionStateError(f"{call} is not possible now: send_offsets_to_transaction is under way")
        if self.error is not None and not heals:
            raise self._raised()
        self._set(to, call)

    def _check(self, state: State, call: str) -> None:
        if self.error is not None:
            raise self._raised()
        if self.state is not state or self._ending is not None:
            raise TransactionStateError(f"{call} is not possible now: {self.state.value}")

    def _set(self, state: State, call: str = "the next step") -> None:
        self.state = move(self.state, state, call)
        if state is not State.IN_TRANSACTION:
            self._close_gate()

    def _close_gate(self) -> None:
        self._admit(self._refusal)

    def _refusal(self) -> ClientError:
        """Why `send` takes no record."""
        return self._raised() if self.error is not None else TransactionStateError(f"not sent: {self.state.value}")

    def _raised(self) -> RefusedError:
        """A copy: the same error may be raised many times, and would collect the traces of all of them."""
        assert self.error is not None
        return type(self.error)(self.error.code, str(self.error))

    def _fail(self, verdict: Verdict, reason: ClientError) -> RefusedError:
        """The transaction, or the producer, has come to this. The error to raise."""
        error = error_for(verdict, self.transactional_id, reason)
        if verdict is Verdict.ABORTABLE and not may_move(self.state, State.MUST_ABORT):
            # An abort is under way already, or this is not about a transaction.
            self._needs_epoch = True
            return error
        log.info("%s", error)
        self._needs_epoch = True
        self.error = error
        self._set(State.MUST_ABORT if verdict is Verdict.ABORTABLE else State.FAILED)
        # Later: the sender may be in the middle of its queues.
        self._loop.call_soon(self._give_up, error)
        return self._raised()

    def _give_up(self, error: RefusedError) -> None:
        self._sender.give_up_unsent(error, numbered_too=self.state is State.FAILED)

    # The ends of a transaction.

    async def _end_in_time(self, call: str, work: Callable[[], Coroutine[Any, Any, None]], timeout_ms: float) -> None:
        if self._ending is None:
            self._ending = self._loop.create_task(work())
            self._ending_call = call
        elif self._ending_call != call:
            raise TransactionStateError(
                f"{call} is not possible now: call {self._ending_call} again to learn its outcome"
            )
        ending = self._ending
        await asyncio.wait({ending}, timeout=max(0.0, timeout_ms / 1000))
        if not ending.done():
            raise TimedOutError(
                f"{call} of transactional id {self.transactional_id!r} had no outcome within {timeout_ms:g} ms and goes on"
                f"{self._requests.reason}; call it again to learn how it went"
            )
        self._ending = None
        if ending.cancelled():
            raise ClosedError("the producer was closed before the transaction had ended")
        ending.result()

    async def _prepare(self) -> None:
        await self._sender.flush()
        if self.error is not None:
            raise self._raised()
        identity = self._sender.identity
        self.prepared = PreparedTransaction(self.transactional_id, identity.producer_id, identity.epoch)
        self._set(State.PREPARED)

    async def _commit(self) -> None:
        await self._sender.flush()
        if self.error is not None:
            raise self._raised()
        await self._end(commit=True)

    async def _abort(self) -> None:
        if self._adding is not None:
            self._adding.cancel()
        self._to_add.clear()
        aborted = TransactionAbortableError(ErrorCode.TRANSACTION_ABORTABLE, "not sent: the transaction was aborted")
        self._sender.give_up_unsent(aborted, numbered_too=False)
        # What is under way has to be known before the end: a batch that came after it would be in no transaction.
        await self._sender.flush()
        await self._end(commit=False)

    async def _end(self, *, commit: bool) -> None:
        identity = self._sender.identity
        if self._has_begun:
            answer = await self._heard(
                self._requests.end(
                    identity,
                    commit=commit,
                    is_version_2=self.is_version_2,
                    may_be_unknown=not commit and self._is_doubtful,
                )
            )
            if answer.producer_id >= 0 and not answer.error_code:
                identity.given(answer.producer_id, answer.producer_epoch)
                self._needs_epoch = False
            elif self.is_version_2:
                self._needs_epoch = True
        await self._ended()

    async def _ended(self) -> None:
        """Ready for the next one."""
        identity = self._sender.identity
        was_version_2, self.is_version_2 = self.is_version_2, self._has_version_2
        if self._needs_epoch or (self.is_version_2 and not was_version_2):
            await self._init_producer_id(identity, keep_prepared=False)
        self.error = None
        self.prepared = None
        self._has_begun = self._is_doubtful = self._needs_epoch = False
        self._added.clear()
        self._to_add.clear()
        self._set(State.READY)

    # Asking coordinators.

    @property
    def _has_version_2(self) -> bool:
        return self._connections.feature_level(FEATURE) >= 2

    async def _heard(self, asking: Coroutine[Any, Any, T]) -> T:
        """The answer, if it is a success. An error decides the state of the transaction, and is raised."""
        try:
            return await asking
        except CoordinatorRefusal as refused:
            if self.state is State.INITIALIZING and refused.verdict is not Verdict.FENCED:
                # Nothing has begun: what the cluster refuses now it may allow later.
                raise refused.reason from None
            raise self._fail(refused.verdict, refused.reason) from refused.reason

    async def _init_producer_id(
        self, identity: ProducerIdentity | None, *, keep_prepared: bool
    ) -> InitProducerIdResponse:
        answer = await self._heard(self._requests.init_producer_id(identity, keep_prepared=keep_prepared))
        self._sender.identity.given(answer.producer_id, answer.producer_epoch)
        return answer

    async def _add_partitions(self) -> None:
        """Have the coordinator know of partitions, all that have come up by then with each request."""
        try:
            while self._to_add and self.state in OPEN:
                partitions = list(self._to_add)
                self._begin_in_doubt()
                await self._heard(self._requests.add_partitions(self._sender.identity, partitions))
                self._is_doubtful = False
                self._added.update(partitions)
                for each in partitions:
                    self._to_add.pop(each, None)
                self._sender.run()
        except ClientError as error:
            # The application hears of it by the state.
            log.debug("partitions were not added to the transaction: %s", error)
        finally:
            self._adding = None

    def _begin_in_doubt(self) -> None:
        """Before a request that opens the transaction: even one that is never answered well may have done so."""
        if not self._has_begun:
            self._has_begun = self._is_doubtful = True

    async def _send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        identity = self._sender.identity
        self._begin_in_doubt()
        if not self.is_version_2:
            await self._heard(self._requests.add_offsets(identity, group.group_id))
            self._is_doubtful = False
        await self._heard(self._requests.commit_offsets(identity, offsets, group, is_version_2=self.is_version_2))
