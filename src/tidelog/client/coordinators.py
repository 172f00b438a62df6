"""Which broker keeps a group or a transactional id.

node_id = await coordinators.find(CoordinatorKind.GROUP, "billing", timeout_ms=30_000)
...
coordinators.lost(CoordinatorKind.GROUP, "billing")        # after NOT_COORDINATOR, or once it is not reached
"""

from __future__ import annotations

import asyncio
from enum import IntEnum

from tidelog.client.cluster_metadata import ClusterMetadata
from tidelog.client.connections import Connections
from tidelog.client.errors import ClientError, ClosedError, TimedOutError, UnsupportedError, refusal
from tidelog.client.options import ClientOptions
from tidelog.client.retries import RetryBackoff
from tidelog.client.seams import ClientSeams
from tidelog.net.address import Address
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse


class CoordinatorKind(IntEnum):
    """What is looked for. The numbers are Kafka's."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Coordinators:
    """The coordinators that one client has to do with, each found once and kept until it is lost."""

    def __init__(
        self, seams: ClientSeams, connections: Connections, metadata: ClusterMetadata, options: ClientOptions
    ) -> None:
        self._loop = seams.loop
        self._connections = connections
        self._metadata = metadata
        self._backoff = RetryBackoff(seams.random, options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._known: dict[tuple[CoordinatorKind, str], int] = {}

    def known(self, kind: CoordinatorKind, key: str) -> int | None:
        """The coordinator as last heard of, None where it has to be found."""
        return self._known.get((kind, key))

    def lost(self, kind: CoordinatorKind, key: str) -> None:
        """The coordinator is another one by now, or is not reached."""
        self._known.pop((kind, key), None)

    def forget_beyond(self, known_max: int) -> None:
        """Forget those that were found longest ago, so that no more are known."""
        while len(self._known) > known_max:
            del self._known[next(iter(self._known))]

    async def find(self, kind: CoordinatorKind, key: str, *, timeout_ms: float) -> int:
        """The broker's id, asking until there is one. TimedOutError where that takes too long; RefusedError where the cluster
        will not say; UnsupportedError where it is too old for this kind of coordinator."""
        deadline_s = self._loop.time() + timeout_ms / 1000
        failures = 0
        last: ClientError | None = None
        while True:
            known = self._known.get((kind, key))
            if known is not None:
                return known
            remaining_s = deadline_s - self._loop.time()
            if remaining_s <= 0:
                reason = self._connections.because(last)
                what = kind.name.lower()
                raise TimedOutError(
                    f"the coordinator of {what} {key} was not found within {timeout_ms:g} ms{reason}"
                ) from last
            try:
                await self._ask(kind, key, remaining_s)
            except (ClosedError, UnsupportedError):
                raise
            except ClientError as error:
                if not error.retriable:
                    raise
                last = error
                failures += 1
                wait_s = min(self._backoff.after(failures) / 1000, max(0.0, deadline_s - self._loop.time()))
                await asyncio.sleep(wait_s)

    async def _ask(self, kind: CoordinatorKind, key: str, timeout_s: float) -> None:
        node_id = self._connections.least_loaded()
        if node_id is None:
            # Nobody is reached; asking for the metadata is what leads back to the bootstrap servers.
            self._metadata.request_update()
            raise self._connections.not_reached()

        def request(version: int) -> FindCoordinatorRequest:
            if version >= 4:
                return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            if version == 0 and kind is not CoordinatorKind.GROUP:
                raise UnsupportedError(f"broker {node_id} knows no coordinators of {kind.name.lower()}s")
            return FindCoordinatorRequest(key=key, key_type=kind if version else 0, coordinator_keys=[])

        answer = await self._connections.ask(
            node_id, request, FindCoordinatorResponse, timeout_ms=max(1, int(timeout_s * 1000))
        )
        found = next((each for each in answer.coordinators if each.key == key), None) or Coordinator(
            key=key,
            node_id=answer.node_id,
            host=answer.host,
            port=answer.port,
            error_code=answer.error_code,
            error_message=answer.error_message,
        )
        if found.error_code:
            raise refusal(found.error_code, found.error_message, about=f"{kind.name.lower()} {key}")
        self._connections.learn(found.node_id, Address(found.host, found.port))
        self._known[kind, key] = found.node_id
