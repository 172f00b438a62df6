"""The driver's half of the exactly-once sink: what Spark's `commit` and `abort` do.

    committer = SinkCommitter(identity, run, settings)
    committer.commit(batch_id, participants)         # everything of the batch counts, once, or SinkError
    committer.abort(batch_id, participants)          # nothing of it does, unless it was decided before

Each call stands alone: Spark makes it in a new process. What is known from before is in the topic of decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from tidelog.client.background import Background
from tidelog.client.errors import ClientError
from tidelog.client.seams import ClientSeams
from tidelog.spark.errors import SourceError, UnfinishedError
from tidelog.spark.sink.sink_cluster import SinkCluster
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity
from tidelog.spark.sink.sink_protocol import Answer, Effect, Steps, abort, commit

T = TypeVar("T")


class Performs(Protocol):
    """Whoever does effects."""

    async def perform(self, effect: Effect) -> Answer: ...


class SinkCommitter:
    """Decides the batches of one sink, for one run of its query."""

    def __init__(self, identity: SinkIdentity, run: str, client_settings: Mapping[str, object]) -> None:
        """`run` is the same for all batches of one start of the query, and no other start has it. `client_settings` are what
        `client_settings.client_settings` gives for a producer; options that only producers have are left alone."""
        self._identity = identity
        self._run = run
        self._client_settings = client_settings

    def commit(self, batch_id: int, participants: Sequence[Participant]) -> None:
        """On return every row of the batch is there once: those of `participants`, or those of an earlier attempt at the same
        batch, in which case `participants` are aborted. Where it raises, Spark calls `abort`, and a new run goes on.

        UndecidedError: nothing of the batch counts. UnfinishedError: it may be decided; the next run sees to it.
        SupersededError, BatchOrderError, LostTransactionError: the query stops.
        """
        self._run_steps(commit(self._identity, self._run, batch_id, participants), f"batch {batch_id}")

    def abort(self, batch_id: int, participants: Sequence[Participant]) -> None:
        """Abort what these tasks have written, but for what is decided: that is committed. Errors as of `commit`."""
        self._run_steps(abort(self._identity, self._run, batch_id, participants), f"the end of batch {batch_id}")

    def _run_steps(self, steps: Steps[None], about: str) -> None:
        background = Background.acquire()

        async def work() -> None:
            cluster = self._cluster(ClientSeams.of(background.loop))
            try:
                await run_steps(steps, cluster)
            finally:
                await cluster.close()

        try:
            background.call(work())
        except (ClientError, SourceError) as error:
            raise UnfinishedError(
                f"{about} of {self._identity} is not finished, and goes on when the query is started again: {error}"
            ) from error
        finally:
            background.release()

    def _cluster(self, seams: ClientSeams) -> SinkCluster:
        return SinkCluster(seams, self._identity, self._client_settings)


async def run_steps(steps: Steps[T], cluster: Performs) -> T:
    """Do what a protocol asks for, to its end."""
    try:
        effect = next(steps)
        while True:
            effect = steps.send(await cluster.perform(effect))
    except StopIteration as done:
        value: T = done.value
        return value
    finally:
        steps.close()
