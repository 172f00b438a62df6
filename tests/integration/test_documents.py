"""A person types README and documentation from top to bottom: every block works, and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.documents import Page, all_pages
from tests.support.typed_page import TypedPage

PAGES = [pytest.param(page, id=page.name) for page in all_pages() if page.is_typed and not page.is_for_compat]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_typed_as_it_is(page: Page, tmp_path: Path) -> None:
    assert page.mistakes == []
    with TypedPage(page, tmp_path) as typed:
        typed.type_all()


def test_the_documents_have_programs_of_every_client() -> None:
    code = "".join(program for page in all_pages() for program in page.programs)

    for client in ("Producer", "Consumer", "Admin", "AsyncProducer", "AsyncConsumer", "AsyncAdmin"):
        assert re.search(rf"\b{client}\(", code), client
