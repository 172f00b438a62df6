"""The table of metrics in the documentation is what a node registers."""

from __future__ import annotations

from tests.repo.test_links import ROOT
from tools import metrics_list


def test_the_document_is_up_to_date() -> None:
    written = (ROOT / "docs" / "metrics.md").read_text()

    assert written == metrics_list.render(), "run .venv/bin/python tools/metrics_list.py"
