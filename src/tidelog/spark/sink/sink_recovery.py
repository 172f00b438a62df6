"""Ending what a query has left open that never comes back.

A recovery is a run of its own that claims every sink of the query: the transactions of a decided batch are committed, all others
aborted. A query that does come back goes on behind what is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import msgspec

from tidelog.client.admin import AsyncAdmin
from tidelog.client.background import Background
from tidelog.client.errors import ClientError
from tidelog.client.seams import ClientSeams
from tidelog.spark.client_settings import common_settings
from tidelog.spark.errors import SinkError, SourceError, UnfinishedError
from tidelog.spark.sink.open_transactions import list_open
from tidelog.spark.sink.sink_cluster import SinkCluster, admin_settings
from tidelog.spark.sink.sink_committer import run_steps
from tidelog.spark.sink.sink_decisions import identities_of
from tidelog.spark.sink.sink_participant import DEFAULT_PREFIX, Participant, SinkIdentity, parse_transactional_id
from tidelog.spark.sink.sink_protocol import recover as recover_steps


class RecoveredSink(msgspec.Struct, frozen=True):
    """What was found of one sink of a query, and what became of it."""

    identity: SinkIdentity
    last_batch_id: int | None
    """The last batch that counts; None where none does."""
    committed: tuple[Participant, ...]
    """Transactions of a decided batch that were committed now, or are known to have been before."""
    aborted: tuple[str, ...]
    """Transactional ids of transactions that no decision named: aborted now."""
    lost: tuple[Participant, ...]
    """Transactions of a decided batch that are aborted, or of which nobody knows."""


class RecoveryReport(msgspec.Struct, frozen=True):
    """What `recover` has done."""

    query: str
    sinks: tuple[RecoveredSink, ...]
    """Empty where nothing is known of the query."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is lost: every batch is there in full or not at all."""
        return not any(each.lost for each in self.sinks)


def recover(
    query: str,
    client_settings: Mapping[str, object],
    *,
    prefix: str = DEFAULT_PREFIX,
    accept_loss: bool = False,
) -> RecoveryReport:
    """Finish the decided batch of every sink of a query and abort whatever else it has open.

    `query` is the id of a streaming query or `txnAppId`. A run of the query that is still there fails with its next batch, and
    nothing is harmed. `accept_loss` lets the query go on after a batch of which some transactions are lost: what is left of it
    then counts as all of it. SinkError where the cluster cannot be reached or does not do it; calling it again goes on.
    """
    if not query:
        raise SinkError("a query to recover needs a name: the id of a streaming query, or txnAppId")
    background = Background.acquire()

    async def work() -> RecoveryReport:
        seams = ClientSeams.of(background.loop)
        settings = common_settings(client_settings)
        run = f"recovery-{UUID(int=seams.random.getrandbits(128), version=4)}"
        async with AsyncAdmin.on(seams, **admin_settings(client_settings)) as admin:
            await admin.connect()
            known = await identities_of(query, prefix, seams, admin, settings)
            # A query that has never come to its first decision has nothing but open transactions.
            for each in await list_open(admin, SinkIdentity(query, prefix=prefix).all_ids_start):
                parsed = parse_transactional_id(each.transactional_id, prefix)
                if parsed is not None and parsed.identity.query == query and parsed.identity not in known:
                    known.append(parsed.identity)
        return RecoveryReport(query, tuple([await recovered(seams, each, run) for each in known]))

    async def recovered(seams: ClientSeams, identity: SinkIdentity, run: str) -> RecoveredSink:
        cluster = SinkCluster(seams, identity, client_settings)
        try:
            done = await run_steps(recover_steps(identity, run, accept_loss=accept_loss), cluster)
        finally:
            await cluster.close()
        return RecoveredSink(identity, done.state.last_batch_id, done.committed, done.aborted, done.lost)

    try:
        return background.call(work())
    except (ClientError, SourceError) as error:
        raise UnfinishedError(f"the recovery of {query} is not finished: {error}") from error
    finally:
        background.release()
