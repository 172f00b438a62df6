"""Pages of the documentation that need Java are typed from top to bottom, as a person would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.documents import Page, all_pages
from tests.support.typed_page import TypedPage

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]
PAGES = [pytest.param(page, id=page.name) for page in all_pages() if page.is_typed and page.is_for_compat]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_typed_as_it_is(page: Page, tmp_path: Path) -> None:
    assert page.mistakes == []
    with TypedPage(page, tmp_path) as typed:
        typed.type_all()
