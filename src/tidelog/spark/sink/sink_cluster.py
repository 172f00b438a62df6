"""The clusters and tables that a sink writes to, as its driver sees them: what does the effects of `sink_protocol`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from tidelog.client.admin import AsyncAdmin
from tidelog.client.admin.outcomes import each_of, value_of
from tidelog.client.admin.transactions import TransactionDescription, TransactionState
from tidelog.client.errors import ClientError, ConfigError, RefusedError, UnsupportedError
from tidelog.client.producer.options import ProducerOptions
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.spark import batch_steps
from tidelog.spark.batch_steps import BatchStep
from tidelog.spark.client_settings import PREFIX, client_settings as settings_of, common_settings
from tidelog.spark.errors import OptionError, SourceError
from tidelog.spark.outputs.staged import Target
from tidelog.spark.sink.open_transactions import admin_settings, decided_here, list_open
from tidelog.spark.sink.sink_batch import TopicOutput
from tidelog.spark.sink.sink_decisions import SinkDecisions
from tidelog.spark.sink.sink_effects import (
    AbortOrphans,
    Answer,
    CheckStaged,
    Discard,
    Effect,
    End,
    Ending,
    EndStaged,
    Held,
    Listing,
    ListOpen,
    OpenTransaction,
    Pin,
    Record,
    TakeOver,
    Warn,
)
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity
from tidelog.spark.sink.sink_state import SinkState
from tidelog.spark.sink.staged_ends import StagedEnds

log = logging.getLogger(__name__)

_HAS_ENDED = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
"""What a coordinator answers where the transaction meant is not open, and did not end as asked now."""
_NO_TWO_PHASE = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})
"""What a cluster answers that knows two-phase commit, and has it switched off or not allowed."""
# An end raises the epoch once, a time-out once before it: with a later one the id has been used again.
_EPOCHS_MAX = 2
# A cluster that a query has left may be gone for good, and every start of the query asks it.
_SWEEP_TIMEOUT_S = 10


def settings_of_cluster(target: Target) -> Mapping[str, object]:
    """Client settings of another cluster, from what a decision says of it; references stay references. OptionError for what this
    release does not understand."""
    options = {name if name.startswith(PREFIX) else f"{PREFIX}{name}": text for name, text in target.options.items()}
    return settings_of(ProducerOptions, {**options, f"{PREFIX}bootstrap.servers": target.place})


class SinkCluster:
    """Does one effect after another, on the loop of `seams`."""

    def __init__(self, seams: ClientSeams, identity: SinkIdentity, client_settings: Mapping[str, object]) -> None:
        self._seams = seams
        self._identity = identity
        self._admin = AsyncAdmin.on(seams, **admin_settings(client_settings))
        self._others: list[tuple[Target, AsyncAdmin]] = []
        self._pinning: list[Target | None] = []
        """Clusters that are known to do it."""
        self._decisions = SinkDecisions(seams, self._admin, identity, common_settings(client_settings))
        self._staged = StagedEnds(seams.clock)

    async def perform(self, effect: Effect) -> Answer:
        """The answer to an effect. ClientError, SourceError or SinkError where it cannot be had: then nobody knows what was
        done."""
        answer = await self._answer(effect)
        if batch_steps.listener is not None:
            batch_steps.tell(BatchStep(_step_of(effect), self._identity.query))
        return answer

    async def _answer(self, effect: Effect) -> Answer:
        match effect:
            case TakeOver(run, is_fresh):
                return await self._decisions.take_over(run, is_fresh=is_fresh)
            case Record(state, audit):
                return await self._decisions.record(state, audit)
            case CheckStaged(staged):
                return await self._staged.check(staged)
            case Pin(topics):
                # Clusters one after another, the participants of each side by side.
                return tuple([await self._pinned(each) for each in topics])
            case EndStaged(output):
                return await self._staged.end(output)
            case End(topics):
                return await self._end(topics)
            case Discard(staged):
                await self._staged.discard(staged)
                return None
            case ListOpen():
                return await self._list(effect)
            case AbortOrphans(orphans):
                outcomes = await each_of(orphans, self._abort)
                return tuple(each.transactional_id for each, outcome in outcomes.items() if outcome is True)
            case Warn(text):
                log.warning("%s", text)
                return None

    async def held_state(self) -> SinkState | None:
        """The state as it is, as long as nobody else decides; None where somebody does, or nobody knows."""
        return await self._decisions.held_state()

    async def close(self) -> None:
        await self._decisions.close()
        for _, admin in self._others:
            await admin.close()
        await self._admin.close()

    def _admin_of(self, cluster: Target | None) -> AsyncAdmin:
        if cluster is None:
            return self._admin
        for target, admin in self._others:
            if target == cluster:
                return admin
        admin = AsyncAdmin.on(self._seams, **admin_settings(settings_of_cluster(cluster)))
        self._others.append((cluster, admin))
        return admin

    async def _pinned(self, topic: TopicOutput) -> Held:
        pinned = await self._pin(topic)
        if pinned is not None:
            return Held(pinned)
        admin = self._admin_of(topic.cluster)
        seen = await each_of(topic.participants, lambda each: seen_open(admin, each))
        return Held(tuple(value_of(seen[each]) for each in topic.participants), has_timeout=True)

    async def _pin(self, topic: TopicOutput) -> tuple[Participant | None, ...] | None:
        """None where the cluster cannot do it."""
        admin = self._admin_of(topic.cluster)
        participants = topic.participants
        found: dict[Participant, Participant | ClientError | None] = {}
        if topic.cluster not in self._pinning:
            # One alone, to see whether the cluster does it: pinned is all of it or nothing.
            try:
                found[participants[0]] = await pin_participant(admin, participants[0])
            except (UnsupportedError, RefusedError) as error:
                if isinstance(error, UnsupportedError) or error.code in _NO_TWO_PHASE:
                    return None
                raise
            self._pinning.append(topic.cluster)
        found |= await each_of(
            [each for each in participants if each not in found], lambda each: pin_participant(admin, each)
        )
        return tuple(value_of(found[each]) for each in participants)

    async def _end(self, topics: tuple[TopicOutput, ...]) -> tuple[Ending, ...]:
        async def end(which: tuple[int, Participant]) -> Ending:
            try:
                admin = self._admin_of(topics[which[0]].cluster)
            except OptionError as error:
                # As if the cluster did not answer: a secret that is missing here keeps no other cluster waiting.
                raise ConfigError(str(error)) from error
            return await end_participant(admin, which[1])

        each_one = [(index, each) for index, topic in enumerate(topics) for each in topic.participants]
        # All are tried before the first that fails is told of.
        outcomes = await each_of(each_one, end)
        return tuple(value_of(outcomes[each]) for each in each_one)

    async def _list(self, asked: ListOpen) -> Listing:
        found: list[OpenTransaction] = []
        unanswered: list[Target | None] = []
        for cluster in asked.clusters:
            timeout_s = _SWEEP_TIMEOUT_S if asked.is_for_sweep and cluster is not None else None
            try:
                async with asyncio.timeout(timeout_s):
                    found += await self._open(cluster, asked.age_ms_min)
            except (ClientError, SourceError, TimeoutError) as error:
                if not asked.is_for_sweep:
                    raise
                where = "" if cluster is None else f" on {cluster.place}"
                why = str(error) or f"no answer in {_SWEEP_TIMEOUT_S} s"
                log.warning("open transactions of %s%s cannot be listed, and stay: %s", self._identity, where, why)
                unanswered.append(cluster)
        return Listing(tuple(found), tuple(unanswered))

    async def _open(self, cluster: Target | None, age_ms_min: int) -> list[OpenTransaction]:
        listed = await list_open(self._admin_of(cluster), self._identity.ids_start, age_ms_min=age_ms_min)
        names = [each.transactional_id for each in listed]
        own = await decided_here(self._admin, names, self._identity.prefix)
        return [
            OpenTransaction(each.transactional_id, each.producer_id, cluster)
            for each in listed
            if each.transactional_id in own
        ]

    async def _abort(self, orphan: OpenTransaction) -> bool:
        transactional_id = orphan.transactional_id
        admin = self._admin_of(orphan.cluster)
        try:
            found = await admin.describe_transaction(transactional_id)
            if found.state is not TransactionState.ONGOING:
                return False
            try:
                await admin.end_transaction(transactional_id, found.producer_id, found.producer_epoch, commit=False)
            except RefusedError as error:
                if error.code not in _HAS_ENDED:
                    raise
                # Pinned, so that only who has pinned it may end it: or whoever takes the id.
                await admin.fence_producer(transactional_id)
        except ClientError as error:
            if error.code not in _HAS_ENDED:
                log.warning("the open transaction of %s is not aborted: %s", transactional_id, error)
            return False
        return True


def _step_of(effect: Effect) -> str:
    """As `batch_steps` calls it."""
    match effect:
        case TakeOver():
            return "take over"
        case Record(state, audit):
            return "finish" if audit is not None or state is None else "claim" if state.decision is None else "decision"
        case CheckStaged():
            return "check"
        case Pin():
            return "pin"
        case EndStaged(output):
            return f"end of {output.sink}"
        case End():
            return "end of topics"
        case Discard():
            return "discard"
        case ListOpen():
            return "list"
        case AbortOrphans():
            return "abort"
        case Warn():
            return "warn"


async def pin_participant(admin: AsyncAdmin, participant: Participant) -> Participant | None:
    """Who may end the transaction from now on; None where it is not open any more, or another one is."""
    pinned = await admin.pin_transaction(participant.transactional_id)
    if pinned.written_by != (participant.producer_id, participant.producer_epoch):
        return None
    return Participant(
        participant.transactional_id,
        pinned.producer_id,
        pinned.producer_epoch,
        participant.records,
        participant.checksum,
        participant.partition_count,
        participant.partitions,
    )


async def seen_open(admin: AsyncAdmin, participant: Participant) -> Participant | None:
    """The participant, if its transaction is the one that is open under its id; None if it has ended."""
    try:
        found = await admin.describe_transaction(participant.transactional_id)
    except RefusedError as error:
        if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        return None
    written_by = (found.producer_id, found.producer_epoch)
    is_it = found.state is TransactionState.ONGOING and written_by == (
        participant.producer_id,
        participant.producer_epoch,
    )
    return participant if is_it else None


async def end_participant(admin: AsyncAdmin, participant: Participant) -> Ending:
    """Commit a transaction by what was recorded of it, or find out how it has ended. Asking twice is as good as once."""
    transactional_id = participant.transactional_id
    try:
        await admin.end_transaction(transactional_id, participant.producer_id, participant.producer_epoch, commit=True)
    except RefusedError as error:
        if error.code not in _HAS_ENDED:
            raise
    else:
        return Ending.COMMITTED
    try:
        return ending_of(participant, await admin.describe_transaction(transactional_id))
    except RefusedError as error:
        if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        return Ending.UNKNOWN


def ending_of(participant: Participant, found: TransactionDescription) -> Ending:
    """How a transaction has ended that is not open, from what its coordinator has now.

    Nobody uses the id as long as a decision names it, so that its last end is this transaction's; a producer id or an epoch that
    does not come from that end says that somebody did.
    """
    epochs = found.producer_epoch - participant.producer_epoch
    if found.producer_id != participant.producer_id or not 0 <= epochs <= _EPOCHS_MAX:
        return Ending.UNKNOWN
    match found.state:
        case TransactionState.COMPLETE_COMMIT | TransactionState.PREPARE_COMMIT:
            return Ending.COMMITTED
        case TransactionState.COMPLETE_ABORT | TransactionState.PREPARE_ABORT:
            return Ending.ABORTED
    return Ending.UNKNOWN
