"""One user's view of one cluster: the clients that ask as this user, and what they have sampled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tidelog.client.admin.async_admin import AsyncAdmin
from tidelog.client.admin.options import AdminOptions
from tidelog.client.consumer.async_consumer import AsyncConsumer
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.options import ClientOptions
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.producer.options import ProducerOptions
from tidelog.console.cluster.sampler import Sampler
from tidelog.console.options import ClusterOptions
from tidelog.console.serving.api_error import ApiError

CLIENT_ID = "tidelog-console"

# Whoever looks at a screen has given up by then.
CALL_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_MS = 5_000

# Pages, searches and tails at a time, each with connections and up to `FETCHED_BYTES_MAX` of its own.
READERS_MAX = 12
FETCHED_BYTES_MAX = 8 * 1024 * 1024
_PARTITION_BYTES_MAX = 1024 * 1024
_READER_WAIT_S = 2.0

# The first samples of a large cluster take a while.
_FIRST_ROUND_S = 20.0


class ClusterView:
    """Lives on the loop that it is opened on; `close` ends its clients."""

    def __init__(self, cluster: ClusterOptions, user: str | None, settings: Mapping[str, Any]) -> None:
        self.cluster = cluster
        self.user = user
        self._settings = settings
        self.admin = AsyncAdmin(**self._options(AdminOptions, default_api_timeout_ms=CALL_TIMEOUT_MS))
        self.sampler = Sampler(self.admin, cluster.trace_urls)
        self._sampling: asyncio.Task[None] | None = None
        self._readers = asyncio.Semaphore(READERS_MAX)
        self._producer: AsyncProducer | None = None
        self.notes: dict[str, Any] = {}
        """What screens keep from question to question, each under its name."""
        self.uses = 0
        """Streams and requests under way."""
        self.last_used_s = 0.0
        self.is_closed = False

    def _options(self, kind: type[ClientOptions], **own: Any) -> Any:
        """Those of one kind of client: what only another kind has is left out."""
        names = kind.__dataclass_fields__
        given = {name: value for name, value in self._settings.items() if name in names}
        return {
            "client_id": CLIENT_ID,
            "socket_connection_setup_timeout_ms": CONNECT_TIMEOUT_MS,
            "request_timeout_ms": CALL_TIMEOUT_MS,
            **given,
            **own,
            "bootstrap_servers": self.cluster.bootstrap,
        }

    def start(self) -> None:
        self._sampling = asyncio.get_running_loop().create_task(self.sampler.run(), name="samples")

    async def close(self) -> None:
        self.is_closed = True
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)
        if self._producer is not None:
            await self._producer.close()
        await self.admin.close()

    async def sampled(self) -> Sampler:
        """The samples, once there are some. ApiError where the cluster does not answer."""
        sampler = self.sampler
        if not sampler.round:
            await sampler.next_round(0, _FIRST_ROUND_S)
        if self._sampling is not None and self._sampling.done() and not self.is_closed:
            # A fault in the sampler must be seen, not waited for.
            self._sampling.result()
        if not sampler.round:
            raise ApiError(
                504, "REQUEST_TIMED_OUT", "the cluster has not told enough of itself yet", "ask again in a moment"
            )
        problem = sampler.problems.get("cluster")
        if problem is not None and problem.status in {401, 504}:
            raise problem
        return sampler

    @asynccontextmanager
    async def reader(self, *, read_committed: bool = False, **own: Any) -> AsyncIterator[AsyncConsumer]:
        """A consumer without a group, for one page or stream."""
        try:
            async with asyncio.timeout(_READER_WAIT_S):
                await self._readers.acquire()
        except TimeoutError:
            raise ApiError(
                503,
                "TOO_MANY_READERS",
                f"{READERS_MAX} pages and streams of this user read records already",
                "close some",
            ) from None
        try:
            options = {
                "enable_auto_commit": False,
                "allow_auto_create_topics": False,
                "auto_offset_reset": "earliest",
                "isolation_level": "read_committed" if read_committed else "read_uncommitted",
                "fetch_max_bytes": FETCHED_BYTES_MAX,
                "max_partition_fetch_bytes": _PARTITION_BYTES_MAX,
                "fetch_max_wait_ms": 100,
                "default_api_timeout_ms": CALL_TIMEOUT_MS,
                **own,
            }
            async with AsyncConsumer(**self._options(ConsumerOptions, **options)) as consumer:
                yield consumer
        finally:
            self._readers.release()

    def producer(self) -> AsyncProducer:
        """The one for what is produced here; made by the first record."""
        if self._producer is None:
            self._producer = AsyncProducer(
                **self._options(
                    ProducerOptions,
                    linger_ms=0,
                    max_block_ms=CALL_TIMEOUT_MS,
                    delivery_timeout_ms=2 * CALL_TIMEOUT_MS,
                    max_request_size=4 * 1024 * 1024,
                )
            )
        return self._producer
