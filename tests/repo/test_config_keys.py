"""A configuration key that is declared works: some code outside of its declaration reads it."""

from __future__ import annotations

import ast
from pathlib import Path

from tidelog.model import controller_config, listener_config, topic_config
from tidelog.model.config import ConfigKey, ConfigKeys

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tidelog"
DECLARING = [topic_config, listener_config, controller_config]


def names_read(source: str) -> set[str]:
    """Every name that code refers to, as a bare name or an attribute. Imports alone do not count."""
    read = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.add(node.id)
        elif isinstance(node, ast.Attribute):
            read.add(node.attr)
    return read


def test_every_declared_key_is_read() -> None:
    declaring = {Path(module.__file__ or "").resolve() for module in DECLARING}
    read: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if path.resolve() not in declaring:
            read |= names_read(path.read_text())

    declared = {name for module in DECLARING for name, value in vars(module).items() if isinstance(value, ConfigKey)}

    assert declared
    assert declared - read == set(), "declared as supported, but no code reads them"


def test_an_import_is_not_a_reading() -> None:
    assert "SEGMENT_MS" not in names_read("from tidelog.model.topic_config import SEGMENT_MS")
    assert "SEGMENT_MS" in names_read("from tidelog.model import topic_config as t\nx = t.SEGMENT_MS.default")


def test_every_key_is_in_its_table() -> None:
    for module in DECLARING:
        declared = {value.name for value in vars(module).values() if isinstance(value, ConfigKey)}
        (table,) = (value for value in vars(module).values() if isinstance(value, ConfigKeys))
        assert declared == set(table)
