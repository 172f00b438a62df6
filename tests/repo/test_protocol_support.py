"""The table of APIs in the documentation is what the handlers declare."""

from __future__ import annotations

import re

from tests.repo.test_links import ROOT
from tidelog.broker.handlers.api_versions import announced_versions
from tidelog.broker.node.node import load_handlers
from tidelog.broker.requests.handling import HANDLERS
from tidelog.wire.apis import ApiKey, api
from tools import protocol_support


def test_the_document_is_up_to_date() -> None:
    written = (ROOT / "docs" / "protocol-support.md").read_text()

    assert written == protocol_support.render(), "run .venv/bin/python tools/protocol_support.py"


def test_every_api_has_a_row_and_every_handler_a_purpose() -> None:
    load_handlers()
    rows = [line.split("|") for line in protocol_support.render().splitlines() if re.match(r"\| \d", line)]

    assert [int(row[1]) for row in rows] == [key.value for key in ApiKey]
    assert all(row[6].strip() for row in rows if int(row[1]) in HANDLERS)
    assert all(row[3].strip() == "not announced" for row in rows if int(row[1]) not in HANDLERS)


def test_nothing_is_announced_beyond_what_is_stable() -> None:
    load_handlers()

    for key, handler in HANDLERS.items():
        stable = api(key).stable_versions
        # The one exception is behind a switch: transactions of two phases.
        assert stable.lowest <= handler.lowest <= announced_versions(handler).max_version <= stable.highest
        assert handler.highest <= stable.highest or key is ApiKey.INIT_PRODUCER_ID
        assert set(handler.listener_kinds) <= set(api(key).listener_kinds)
