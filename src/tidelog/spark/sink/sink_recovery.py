"""Ending what queries have left open that never come back.

A recovery is a run of its own that claims every sink of the query: the outputs of a decided batch are ended, all other
transactions aborted. A query that does come back goes on behind what is decided.

It is asked at the cluster that has the decisions. What other clusters have of the query is ended from there; asked at one of
those, a recovery leaves it alone and says where to ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import TypeVar
from uuid import UUID

import msgspec

from tidelog.client.admin import AsyncAdmin
from tidelog.client.admin.transactions import TransactionState
from tidelog.client.background import Background
from tidelog.client.errors import ClientError
from tidelog.client.seams import ClientSeams
from tidelog.model.clock import system_now_ms
from tidelog.spark.client_settings import common_settings
from tidelog.spark.errors import SinkError, SourceError, UnfinishedError
from tidelog.spark.sink.open_transactions import admin_settings, decided_here, list_open, recover_command
from tidelog.spark.sink.sink_cluster import SinkCluster
from tidelog.spark.sink.sink_committer import run_steps
from tidelog.spark.sink.sink_decisions import known_sinks
from tidelog.spark.sink.sink_participant import (
    DEFAULT_PREFIX,
    DecidingCluster,
    Participant,
    SinkIdentity,
    parse_transactional_id,
)
from tidelog.spark.sink.sink_protocol import recover as recover_steps

T = TypeVar("T")


class RecoveredSink(msgspec.Struct, frozen=True):
    """What was found of one sink of a query, and what became of it."""

    identity: SinkIdentity
    last_batch_id: int | None
    """The last batch that counts; None where none does."""
    committed: tuple[Participant, ...]
    """Transactions of a decided batch that were committed now, or are known to have been before."""
    ended: tuple[str, ...]
    """Sinks of a pipeline whose staged rows of that batch count, now or from before."""
    aborted: tuple[str, ...]
    """Transactional ids of transactions that no decision named: aborted now."""
    lost: tuple[Participant, ...]
    """Transactions of a decided batch that are aborted, or of which nobody knows."""
    stopped: tuple[str, ...]
    """Sentences about sinks that do not take their rows of a decided batch."""
    skipped: tuple[str, ...]
    """Sinks that the batch counts without."""


class RecoveryReport(msgspec.Struct, frozen=True):
    """What `recover` has done."""

    query: str
    """Empty for all."""
    sinks: tuple[RecoveredSink, ...]
    """Empty where nothing is known of the query."""
    elsewhere: tuple[str, ...] = ()
    """Sentences about transactions of which another cluster has the decisions: they are left as they are."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is lost and nothing waits: every batch is there in full or not at all, but for skipped sinks."""
        return not (self.elsewhere or any(each.lost or each.stopped for each in self.sinks))


def recover(
    query: str,
    client_settings: Mapping[str, object],
    *,
    prefix: str = DEFAULT_PREFIX,
    accept_loss: bool = False,
    skip_sinks: Collection[str] = (),
    skips_unreached: bool = False,
) -> RecoveryReport:
    """Finish the decided batch of every sink of a query and abort whatever else it has open.

    `query` is the id of a streaming query or `txnAppId`. A run of the query that is still there fails with its next batch, and
    nothing is harmed. `accept_loss` lets the query go on after a batch of which some transactions are lost: what is left of it
    then counts as all of it. `skip_sinks` are tables of a pipeline that the batch counts without, if they still refuse their
    rows; with `skips_unreached` also those that are not reached, and may have them. SinkError where the cluster cannot be
    reached or does not do it, or nothing waits for such a sink; calling it again goes on.
    """
    if not query:
        raise SinkError("a query to recover needs a name: the id of a streaming query, or txnAppId")

    async def work(seams: ClientSeams) -> RecoveryReport:
        async with AsyncAdmin.on(seams, **admin_settings(client_settings)) as admin:
            await admin.connect()
            settings = common_settings(client_settings)
            recorded = await known_sinks(prefix, seams, admin, settings, query=query)
            known = [each.identity for each in recorded]
            # A query that has never come to its first decision has nothing but open transactions.
            open_ids: dict[str, SinkIdentity] = {}
            for listed in await list_open(admin, SinkIdentity(query, prefix=prefix).all_ids_start):
                parsed = parse_transactional_id(listed.transactional_id, prefix)
                if parsed is not None and parsed.identity.query == query:
                    open_ids[listed.transactional_id] = parsed.identity
            here = await decided_here(admin, open_ids, prefix)
            for name, identity in open_ids.items():
                if name in here and identity not in known:
                    known.append(identity)
            elsewhere = _elsewhere((each for each in open_ids if each not in here), prefix)
        run = _new_run(seams)
        waiting: set[str] = set()
        sinks = []
        for each in known:
            sink, staged = await _recovered(
                seams,
                each,
                run,
                client_settings,
                accept_loss=accept_loss,
                skip_sinks=skip_sinks,
                skips_unreached=skips_unreached,
            )
            waiting.update(staged)
            sinks.append(sink)
        if strange := sorted(set(skip_sinks) - waiting):
            names = f"; it waits for {', '.join(sorted(waiting))}" if waiting else ""
            where = "".join(f"; {each}" for each in elsewhere)
            raise SinkError(f"no batch of {query} waits for a sink {strange[0]}, so that none is skipped{names}{where}")
        return RecoveryReport(query, tuple(sinks), elsewhere)

    return _in_background(work, f"the recovery of {query}")


def recover_all(
    client_settings: Mapping[str, object], *, older_than_ms: int, prefix: str = DEFAULT_PREFIX
) -> RecoveryReport:
    """Do the same for all queries under a prefix that have something open, and from which nothing has come for so long: no
    transaction was opened, and nothing recorded. Losses are not accepted and no sinks skipped; that is for one query alone."""

    async def work(seams: ClientSeams) -> RecoveryReport:
        async with AsyncAdmin.on(seams, **admin_settings(client_settings)) as admin:
            await admin.connect()
            silent, elsewhere = await _silent(seams, admin, client_settings, older_than_ms, prefix)
        run = _new_run(seams)
        sinks = [
            (await _recovered(seams, each, run, client_settings, accept_loss=False, skip_sinks=()))[0]
            for each in silent
        ]
        return RecoveryReport("", tuple(sinks), elsewhere)

    return _in_background(work, "the recovery of all queries")


async def _silent(
    seams: ClientSeams, admin: AsyncAdmin, client_settings: Mapping[str, object], older_than_ms: int, prefix: str
) -> tuple[list[SinkIdentity], tuple[str, ...]]:
    """Those with something open of which nothing was heard since; and about transactions as old that are decided on elsewhere."""
    until_ms = seams.clock.now_ms() - older_than_ms
    heard_ms: dict[SinkIdentity, int] = {}
    left: list[str] = []
    open_ids: dict[str, SinkIdentity] = {}
    for listed in await list_open(admin, f"{prefix}."):
        parsed = parse_transactional_id(listed.transactional_id, prefix)
        if parsed is not None:
            open_ids[listed.transactional_id] = parsed.identity
    here = await decided_here(admin, open_ids, prefix)
    for name, found in (await admin.describe_transactions(open_ids)).items():
        if isinstance(found, ClientError) or found.state is not TransactionState.ONGOING:
            continue
        identity, started_ms = open_ids[name], found.start_time_ms or 0
        if name in here:
            heard_ms[identity] = max(heard_ms.get(identity, 0), started_ms)
        elif started_ms <= until_ms:
            left.append(name)
    for known in await known_sinks(prefix, seams, admin, common_settings(client_settings)):
        if known.has_decision or known.identity in heard_ms:
            heard_ms[known.identity] = max(heard_ms.get(known.identity, 0), known.written_ms)
    silent = sorted((each for each, when_ms in heard_ms.items() if when_ms <= until_ms), key=str)
    return silent, _elsewhere(left, prefix)


def _elsewhere(transactional_ids: Iterable[str], prefix: str) -> tuple[str, ...]:
    """Sentences about what is open here, and decided on at another cluster: a decision there may count on it."""
    counts: Counter[tuple[SinkIdentity, DecidingCluster]] = Counter()
    for each in transactional_ids:
        parsed = parse_transactional_id(each, prefix)
        if parsed is not None and parsed.decided_at is not None:
            counts[parsed.identity, parsed.decided_at] += 1
    return tuple(
        f"{count} transactions of {identity} are open here and stay so, since a decision may count on them: end them by "
        f"{recover_command(identity, decided_at)}"
        for (identity, decided_at), count in sorted(counts.items(), key=str)
    )


async def _recovered(
    seams: ClientSeams,
    identity: SinkIdentity,
    run: str,
    client_settings: Mapping[str, object],
    *,
    accept_loss: bool,
    skip_sinks: Collection[str],
    skips_unreached: bool = False,
) -> tuple[RecoveredSink, tuple[str, ...]]:
    """What became of a sink, and the staged outputs that its decision had."""
    cluster = SinkCluster(seams, identity, client_settings)
    try:
        steps = recover_steps(
            identity,
            run,
            accept_loss=accept_loss,
            skip_sinks=skip_sinks,
            skips_unreached=skips_unreached,
            now_ms=system_now_ms,
        )
        done = await run_steps(steps, cluster)
    finally:
        await cluster.close()
    found = RecoveredSink(
        identity,
        done.state.last_batch_id,
        done.committed,
        done.ended,
        done.aborted,
        done.lost,
        done.stopped,
        done.skipped,
    )
    return found, done.staged


def _new_run(seams: ClientSeams) -> str:
    return f"recovery-{UUID(int=seams.random.getrandbits(128), version=4)}"


def _in_background(work: Callable[[ClientSeams], Coroutine[object, object, T]], about: str) -> T:
    background = Background.acquire()
    try:
        return background.call(work(ClientSeams.of(background.loop)))
    except (ClientError, SourceError) as error:
        raise UnfinishedError(f"{about} is not finished: {error}") from error
    finally:
        background.release()
