"""The cluster that a sink writes to, as its driver sees it: what does the effects of `sink_protocol`."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, cast

from tidelog.client.admin import AsyncAdmin
from tidelog.client.admin.outcomes import each_of, value_of
from tidelog.client.admin.transactions import TransactionDescription, TransactionListing, TransactionState
from tidelog.client.errors import ClientError, RefusedError, UnsupportedError
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.spark.client_settings import common_settings
from tidelog.spark.sink.sink_decisions import SinkDecisions
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity
from tidelog.spark.sink.sink_protocol import (
    AbortOrphans,
    Answer,
    Effect,
    End,
    Ending,
    ListOpen,
    OpenTransaction,
    Record,
    TakeOver,
)

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
# An end raises the epoch once, a time-out once before it: with a later one the id has been used again.
_EPOCHS_MAX = 2


def admin_settings(client_settings: Mapping[str, object]) -> dict[str, Any]:
    """For an admin that waits no longer than the producer may."""
    settings = common_settings(client_settings)
    if "max_block_ms" in client_settings:
        settings["default_api_timeout_ms"] = max(1, cast("int", client_settings["max_block_ms"]))
    return settings


class SinkCluster:
    """Does one effect after another, on the loop of `seams`."""

    def __init__(self, seams: ClientSeams, identity: SinkIdentity, client_settings: Mapping[str, object]) -> None:
        settings = common_settings(client_settings)
        self._identity = identity
        self._admin = AsyncAdmin.on(seams, **admin_settings(client_settings))
        self._decisions = SinkDecisions(seams, self._admin, identity, settings)

    async def perform(self, effect: Effect) -> Answer:
        """The answer to an effect. ClientError or SourceError where it cannot be had: then nobody knows what was done."""
        match effect:
            case TakeOver():
                return await self._decisions.take_over()
            case Record(state):
                return await self._decisions.record(state)
            case End(participants, is_committed):
                return await self._end(participants, is_committed=is_committed)
            case ListOpen(is_for_sweep, age_ms_min):
                return await self._open(is_for_sweep=is_for_sweep, age_ms_min=age_ms_min)
            case AbortOrphans(transactional_ids):
                outcomes = await each_of(transactional_ids, self._abort)
                return tuple(each for each, outcome in outcomes.items() if outcome is True)

    async def close(self) -> None:
        await self._decisions.close()
        await self._admin.close()

    async def _end(self, participants: tuple[Participant, ...], *, is_committed: bool) -> tuple[Ending, ...]:
        async def end(participant: Participant) -> Ending:
            return await end_participant(self._admin, participant, is_committed=is_committed)

        # All are tried before the first that fails is told of.
        outcomes = await each_of(participants, end)
        return tuple(value_of(outcomes[each]) for each in participants)

    async def _open(self, *, is_for_sweep: bool, age_ms_min: int) -> tuple[OpenTransaction, ...]:
        try:
            listed = await list_open(self._admin, self._identity.ids_start, age_ms_min=age_ms_min)
        except ClientError as error:
            if not is_for_sweep:
                raise
            log.warning("open transactions of %s cannot be listed, and stay: %s", self._identity, error)
            return ()
        return tuple(OpenTransaction(each.transactional_id, each.producer_id) for each in listed)

    async def _abort(self, transactional_id: str) -> bool:
        try:
            found = await self._admin.describe_transaction(transactional_id)
            if found.state is TransactionState.ONGOING:
                await self._admin.end_transaction(
                    transactional_id, found.producer_id, found.producer_epoch, commit=False
                )
                return True
        except ClientError as error:
            if error.code not in _HAS_ENDED:
                log.warning("the open transaction of %s is not aborted: %s", transactional_id, error)
        return False


async def list_open(admin: AsyncAdmin, ids_start: str, *, age_ms_min: int = 0) -> list[TransactionListing]:
    """The open transactions whose ids begin like this; those that are as old, where the cluster knows ages."""
    states = [TransactionState.ONGOING]
    duration_ms = age_ms_min or None
    try:
        listed = await admin.list_transactions(
            states=states, duration_ms=duration_ms, pattern=f"{re.escape(ids_start)}.*"
        )
    except UnsupportedError:
        # Apache Kafka before 4.1 does not look at names.
        listed = await admin.list_transactions(states=states, duration_ms=duration_ms)
    return [each for each in listed if each.transactional_id.startswith(ids_start)]


async def end_participant(admin: AsyncAdmin, participant: Participant, *, is_committed: bool) -> Ending:
    """End a transaction by what was recorded of it, or find out how it has ended. Asking twice is as good as once."""
    transactional_id = participant.transactional_id
    try:
        await admin.end_transaction(
            transactional_id, participant.producer_id, participant.producer_epoch, commit=is_committed
        )
    except RefusedError as error:
        if error.code not in _HAS_ENDED:
            raise
    else:
        return Ending.COMMITTED if is_committed else Ending.ABORTED
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
