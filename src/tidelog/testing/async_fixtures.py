"""Fixtures for tests that are coroutines: with pytest-asyncio where that runs them, else with anyio's plugin.

async def test_orders(tidelog_async_producer, tidelog_async_consumer, tidelog_topic): ...
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tidelog.testing.plugin import consumer_options

# In its strict mode pytest-asyncio takes only fixtures that are declared to it; anyio takes those of any asynchronous test.
if "pytest_asyncio" in sys.modules:
    from pytest_asyncio import fixture
else:
    from pytest import fixture  # type: ignore[no-redef] # noqa: PT013

if TYPE_CHECKING:
    from tidelog.client.consumer.async_consumer import AsyncConsumer
    from tidelog.client.producer.async_producer import AsyncProducer
    from tidelog.testing.embedded_cluster import EmbeddedCluster


@fixture
async def tidelog_async_producer(tidelog_cluster: EmbeddedCluster) -> AsyncIterator[AsyncProducer]:
    """As `tidelog_producer`, on the loop of the test."""
    from tidelog.client.producer.async_producer import AsyncProducer  # noqa: PLC0415

    async with AsyncProducer(**tidelog_cluster.client_options()) as producer:
        yield producer


@fixture
async def tidelog_async_consumer(tidelog_cluster: EmbeddedCluster, tidelog_topic: str) -> AsyncIterator[AsyncConsumer]:
    """As `tidelog_consumer`, on the loop of the test."""
    from tidelog.client.consumer.async_consumer import AsyncConsumer  # noqa: PLC0415

    options = {**tidelog_cluster.client_options(), **consumer_options(tidelog_topic)}
    async with AsyncConsumer(tidelog_topic, **options) as consumer:
        yield consumer
