"""Ending staged outputs from the driver's loop: their kinds block, and are called in threads.

What is not reached is tried again for some time. Then whoever asked is told, and whoever comes next asks again: an end has one
outcome, however often it is asked for. An error that no kind should raise, such as a library's own, is a refusal: it must keep no
other sink from being ended, and a person has to see to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tidelog.model.clock import Clock
from tidelog.spark.errors import SinkError, SourceError
from tidelog.spark.outputs.kind import OutputUnreachableError
from tidelog.spark.outputs.manifest_store import delete_manifest, kind_of_output, read_manifest
from tidelog.spark.outputs.staged import StagedOutput
from tidelog.spark.sink.sink_effects import Unended

log = logging.getLogger(__name__)

# As long as a client waits for a cluster: a database that starts again is there by then.
REACH_TIMEOUT_MS = 60_000
_PAUSE_FIRST_S = 0.1
_PAUSE_MAX_S = 5.0
# Libraries put whole plans and traces into their errors.
_REASON_CHARACTERS_MAX = 500


class StagedEnds:
    """Does what the protocol asks of staged outputs."""

    def __init__(self, clock: Clock, reach_timeout_ms: int = REACH_TIMEOUT_MS) -> None:
        self._clock = clock
        self._reach_timeout_ms = reach_timeout_ms

    async def check(self, staged: Sequence[StagedOutput]) -> tuple[str, ...]:
        """For each why it would not be taken, or an empty text."""
        return tuple([await self._check(each) for each in staged])

    async def end(self, output: StagedOutput) -> Unended | None:
        """None once its rows count."""
        try:
            await self._until_reached(output, _end)
        except Exception as error:  # noqa: BLE001 - see above
            return unended_by(error)
        return None

    async def discard(self, staged: Sequence[StagedOutput]) -> None:
        """As far as it goes; what stays is swept later."""
        for each in staged:
            try:
                await asyncio.to_thread(_discard, each)
            except Exception as error:  # noqa: BLE001 - see above
                why = unended_by(error).reason
                log.warning("what the sink %s has staged in %s stays: %s", each.sink, each.manifest_path, why)

    async def _check(self, output: StagedOutput) -> str:
        try:
            await self._until_reached(output, _check)
        except Exception as error:  # noqa: BLE001 - see above
            return unended_by(error).reason
        return ""

    async def _until_reached(self, output: StagedOutput, work: Callable[[StagedOutput], None]) -> None:
        until_ms = self._clock.monotonic_ms() + self._reach_timeout_ms
        pause_s = _PAUSE_FIRST_S
        while True:
            try:
                # A thread that is in the middle of an end cannot be stopped, and need not be: the same end may be asked again.
                await asyncio.to_thread(work, output)
            except (OutputUnreachableError, OSError) as error:
                if self._clock.monotonic_ms() >= until_ms:
                    raise OutputUnreachableError(f"the sink {output.sink} is not reached: {error}") from error
                log.info("the sink %s is not reached, and asked again: %s", output.sink, error)
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_MAX_S)


def unended_by(error: Exception) -> Unended:
    """What an error of a kind means: refused, unless the kind says that it is not reached."""
    if isinstance(error, SinkError | SourceError | OSError):
        return Unended(str(error), is_refused=not isinstance(error, OutputUnreachableError | OSError))
    log.warning("a sink failed as none should", exc_info=error)
    words = " ".join(str(error).split())
    return Unended(f"{type(error).__name__}: {words[:_REASON_CHARACTERS_MAX]}", is_refused=True)


def _check(output: StagedOutput) -> None:
    kind_of_output(output).check(read_manifest(output))


def _end(output: StagedOutput) -> None:
    kind_of_output(output).end(read_manifest(output))


def _discard(output: StagedOutput) -> None:
    kind_of_output(output).discard(read_manifest(output).manifest.parts)
    delete_manifest(output)
