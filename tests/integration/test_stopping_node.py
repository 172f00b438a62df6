"""A node that stops: what clients are told meanwhile, and what it says when it could not go on."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.raw_client import RawClient
from tests.support.running_node import DEADLINE_S, RunningNode
from tidelog.broker.node.node import BrokerNode
from tidelog.controller.errors import UnsupportedFeatureError
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse

ASK = MetadataRequest(topics=[], include_topic_authorized_operations=False)
VERSION = 12


def test_the_only_node_is_named_in_every_answer_until_its_end(tmp_path: Path) -> None:
    named: list[list[int]] = []
    has_begun = threading.Event()

    def ask_until_the_end(client: RawClient) -> None:
        with client, suppress(ConnectionError):
            while True:
                named.append([each.node_id for each in client.call(ASK, MetadataResponse, VERSION).brokers])
                has_begun.set()

    with RunningNode(tmp_path) as node:
        asking = threading.Thread(target=ask_until_the_end, args=(RawClient(node.bootstrap),))
        asking.start()
        assert has_begun.wait(DEADLINE_S)
    asking.join(DEADLINE_S)

    assert not asking.is_alive()
    assert named == [[1]] * len(named)


def test_a_level_beyond_this_release_that_another_node_raised_stops_the_node_with_that_reason(tmp_path: Path) -> None:
    raised = FramedRecord(FeatureLevelRecord(name="metadata.version", feature_level=31), 0)

    async def raise_level(node: BrokerNode) -> None:
        node.quorum.append([raised], node.quorum.epoch)
        await asyncio.wait([node.stopped])

    with (
        pytest.raises(UnsupportedFeatureError, match=r"metadata\.version at level 31"),
        RunningNode(tmp_path) as running,
    ):
        running.run(raise_level(running.node))
        # The end of the `with` raises what has stopped the node.
