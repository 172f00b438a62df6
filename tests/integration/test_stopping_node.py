"""What clients are told by a node that is just stopping."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

from tests.support.raw_client import RawClient
from tests.support.running_node import DEADLINE_S, RunningNode
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
