"""The tables of options in the clients' document are what the clients declare."""

from __future__ import annotations

import pytest

from tests.repo.test_links import ROOT
from tidelog.client.admin.options import AdminOptions
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.options import ClientOptions, describe_options, parse_options
from tidelog.client.producer.options import parse_producer_options
from tools import client_options


def test_the_document_is_up_to_date() -> None:
    written = (ROOT / "docs" / "clients.md").read_text()

    assert written == client_options.render(written), "run .venv/bin/python tools/client_options.py"


@pytest.mark.parametrize("kind", [ConsumerOptions, AdminOptions])
def test_every_option_is_in_the_document_with_its_own_line(kind: type[ClientOptions]) -> None:
    written = (ROOT / "docs" / "clients.md").read_text()

    for name, (_, doc) in describe_options(kind).items():
        assert f"| `{name}` |" in written
        assert doc in written


def test_defaults_that_are_written_by_hand_are_the_declared_ones() -> None:
    servers = "127.0.0.1:9092"
    consumer = parse_options(
        ConsumerOptions,
        {
            "bootstrap_servers": servers,
            "partition_assignment_strategy": ["range", "cooperative-sticky"],
            "auto_offset_reset": "latest",
        },
    )
    producer = parse_producer_options({"bootstrap_servers": servers, "acks": "all", "enable_idempotence": True})

    assert consumer == parse_options(ConsumerOptions, {"bootstrap_servers": servers})
    assert producer == parse_producer_options({"bootstrap_servers": servers})
