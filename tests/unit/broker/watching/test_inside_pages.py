"""Who may look inside a node, and what is no question."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.appends import produced
from tests.support.data_node import DataNode
from tests.support.log_builder import HeldSlowWork, LogBuilder
from tidelog.broker.watching.inside_pages import InsidePages
from tidelog.broker.watching.log_page import READS_MAX
from tidelog.model.pending import Pending
from tidelog.model.slow_work import InlineSlowWork, SlowWork
from tidelog.net.address import Address
from tidelog.net.http_endpoint import HttpRequest, Page

BATCHES = LogBuilder()
LOG = "topic=orders&partition=0&offset="


class Endpoint:
    """As much of an open port as is asked for."""

    def __init__(self, host: str = "127.0.0.1", *, is_private: bool = True) -> None:
        self.address = Address(host, 9404)
        self.is_private = is_private


def pages(node: DataNode, endpoint: Endpoint | None = None, slow_work: SlowWork | None = None) -> InsidePages:
    return InsidePages(cast("Any", node), cast("Any", endpoint or Endpoint()), slow_work or InlineSlowWork())


def ask(
    inside: InsidePages, path: str, query: str, host: str | None = "127.0.0.1:9404", *, serves: bool = True
) -> Page | Pending[Page]:
    page = inside.page(HttpRequest("GET", path, 1, query=query, host=host), serves=serves)
    if isinstance(page, Pending) and page.is_complete:
        page = page.value
    assert isinstance(page, Page | Pending)
    return page


def status(page: Page | Pending[Page]) -> int:
    assert isinstance(page, Page)
    return page.status


@pytest.fixture
def node() -> DataNode:
    node = DataNode()
    node.create_topic("orders")
    produced(node.partition("orders"), BATCHES.batch("a", "b"))
    return node


@pytest.mark.parametrize("path", ["/trace", "/log"])
def test_a_port_that_others_reach_needs_tls_and_a_token(node: DataNode, path: str) -> None:
    page = ask(pages(node, Endpoint("0.0.0.0", is_private=False)), path, f"{LOG}0")

    assert isinstance(page, Page)
    assert page.status == 403
    assert b"--metrics-token-file" in b"".join(page.pieces)


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("127.0.0.1:9404", 200),
        ("127.0.0.1", 200),
        ("localhost:9404", 200),
        ("LocalHost", 200),
        ("[::1]:9404", 200),
        ("evil.example:9404", 403),
        ("127.0.0.1.evil.example", 403),
        ("10.0.0.1", 403),
        ("", 403),
        (None, 403),
    ],
)
def test_a_page_that_has_taken_over_a_name_gets_nothing(node: DataNode, host: str | None, told: int) -> None:
    assert status(ask(pages(node), "/log", f"{LOG}0", host)) == told


def test_where_the_port_has_tls_and_a_token_any_name_will_do(node: DataNode) -> None:
    assert status(ask(pages(node, Endpoint("10.1.2.3")), "/log", f"{LOG}0", "node-1.example:9404")) == 200


def test_a_node_that_does_not_serve_says_so(node: DataNode) -> None:
    assert status(ask(pages(node), "/log", f"{LOG}0", serves=False)) == 503


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (f"{LOG}0", 200),
        (f"{LOG}1", 200),
        (f"{LOG}2", 404),
        (f"{LOG}-1", 400),
        (f"{LOG}{'9' * 19}", 404),
        (f"{LOG}{'9' * 20}", 400),
        ("topic=orders&partition=0", 400),
        ("topic=orders&partition=1&offset=0", 404),
        ("topic=orders&partition=%D9%A0&offset=0", 404),
        ("topic=other&partition=0&offset=0", 404),
        ("topic=orders&topic=orders&partition=0&offset=0", 400),
        ("", 400),
    ],
)
def test_the_log_answers_what_it_has(node: DataNode, query: str, told: int) -> None:
    assert status(ask(pages(node), "/log", query)) == told


def test_so_many_reads_at_a_time_and_no_more(node: DataNode) -> None:
    held = HeldSlowWork()
    inside = pages(node, slow_work=held)
    waiting = [ask(inside, "/log", f"{LOG}0") for _ in range(READS_MAX)]
    refused = ask(inside, "/log", f"{LOG}0")
    held.run()

    assert status(refused) == 503
    assert [each.value.status for each in waiting if isinstance(each, Pending)] == [200] * READS_MAX


def test_a_damaged_batch_is_told_and_harms_nobody(node: DataNode) -> None:
    log = node.log("orders")
    log.segments.active.file.pwritev([b"\xff"], 70)
    wrong = ask(pages(node), "/log", f"{LOG}0")
    log.segments.active.file.pwritev([b"\xff\xff"], 21)
    unknown_codec = ask(pages(node), "/log", f"{LOG}0")

    assert isinstance(wrong, Page)
    assert b'"is_valid":false' in b"".join(wrong.pieces)
    assert status(unknown_codec) == 500
