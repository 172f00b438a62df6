"""The driver's half of the exactly-once sink: what Spark's `commit` and `abort` do.

    committer = SinkCommitter(identity, run, settings)
    committer.commit(work)         # everything of the batch counts, once, or SinkError
    committer.abort(work)          # nothing of it does, unless it was decided before

Each call stands alone: Spark makes it in a new process. What is known from before is in the topic of decisions. Whoever commits
batch after batch in one process has its connections kept in between:

    with SinkCommitter(identity, run, settings) as committer:
        ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, Self

from tidelog.client.background import Background
from tidelog.client.errors import ClientError
from tidelog.client.seams import ClientSeams
from tidelog.model.clock import system_now_ms
from tidelog.spark.errors import SourceError, UnfinishedError
from tidelog.spark.sink.sink_batch import BatchWork
from tidelog.spark.sink.sink_cluster import SinkCluster
from tidelog.spark.sink.sink_effects import Answer, Effect, Steps, T
from tidelog.spark.sink.sink_participant import SinkIdentity
from tidelog.spark.sink.sink_protocol import abort, commit


class Performs(Protocol):
    """Whoever does effects."""

    async def perform(self, effect: Effect) -> Answer: ...


class _Kept(NamedTuple):
    background: Background
    cluster: SinkCluster


class SinkCommitter:
    """Decides the batches of one sink, for one run of its query."""

    def __init__(self, identity: SinkIdentity, run: str, client_settings: Mapping[str, object]) -> None:
        """`run` is the same for all batches of one start of the query, and no other start has it. `client_settings` are what
        `client_settings.client_settings` gives for a producer; options that only producers have are left alone."""
        self._identity = identity
        self._run = run
        self._client_settings = client_settings
        self._is_kept = False
        self._kept: _Kept | None = None

    def commit(self, work: BatchWork) -> None:
        """On return every row of the batch is there once: those of `work`, or those of an earlier attempt at the same batch, in
        which case these are aborted. Where it raises, Spark calls `abort`, and a new run goes on.

        UndecidedError: nothing of the batch counts. UnfinishedError: it may be decided; the next run sees to it.
        SupersededError, BatchOrderError, BatchInputError, LostTransactionError, OutputStoppedError: the query stops.
        """
        self._run_steps(commit(self._identity, self._run, work, now_ms=system_now_ms), f"batch {work.batch_id}")

    def abort(self, work: BatchWork) -> None:
        """Abort what these tasks have written, but for what is decided: that is committed. Errors as of `commit`."""
        self._run_steps(
            abort(self._identity, self._run, work, now_ms=system_now_ms), f"the end of batch {work.batch_id}"
        )

    def protected_manifests(self) -> frozenset[str] | None:
        """Of staged outputs that no upkeep may touch now. None where this run does not decide any more, or nobody knows: whoever
        does may have decided something since."""
        if self._kept is None:
            return None
        state = self._kept.background.call(self._kept.cluster.held_state())
        return state.protected_manifests if state is not None and state.owner == self._run else None

    def close(self) -> None:
        """Let go of the connections. What is under way on the cluster stays as it is."""
        kept, self._kept = self._kept, None
        if kept is not None:
            try:
                kept.background.call(kept.cluster.close())
            finally:
                kept.background.release()

    def __enter__(self) -> Self:
        self._is_kept = True
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._is_kept = False
        self.close()

    def _run_steps(self, steps: Steps[None], about: str) -> None:
        if self._kept is None:
            background = Background.acquire()
            self._kept = _Kept(background, self._cluster(ClientSeams.of(background.loop)))
        is_done = False
        try:
            self._kept.background.call(run_steps(steps, self._kept.cluster))
            is_done = True
        except (ClientError, SourceError) as error:
            raise UnfinishedError(
                f"{about} of {self._identity} is not finished, and goes on when the query is started again: {error}"
            ) from error
        finally:
            # After an error nobody knows what the connections are at; the next call begins anew.
            if not (is_done and self._is_kept):
                self.close()

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
