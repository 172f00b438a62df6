"""Every fenced block of every page is one that a test types, or says why it is not."""

from __future__ import annotations

import pytest

from tests.support.documents import Page, all_pages


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in all_pages()])
def test_no_block_escapes_from_being_typed(page: Page) -> None:
    assert page.mistakes == []


def test_the_first_pages_are_typed() -> None:
    typed = {page.name for page in all_pages() if page.is_typed}

    assert {"README.md", "docs/clients.md", "docs/inspect.md", "docs/pipelines.md", "docs/spark.md"} <= typed
