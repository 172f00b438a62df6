"""The tables of keys in the document about security are what is declared."""

from __future__ import annotations

from tests.repo.test_links import ROOT
from tidelog.model.sasl_config import SASL_KEYS
from tidelog.model.tls_config import TLS_KEYS
from tools import security_keys

DOCUMENT = ROOT / "docs" / "security.md"


def test_the_document_is_up_to_date() -> None:
    written = DOCUMENT.read_text()

    assert written == security_keys.render(written), "run .venv/bin/python tools/security_keys.py"


def test_every_key_of_tls_and_sasl_has_a_line() -> None:
    written = DOCUMENT.read_text()

    for name in (*TLS_KEYS, *SASL_KEYS):
        assert f"\n| `{name}` |" in written
