"""A configuration key that is declared works: some code outside of its declaration reads it."""

from __future__ import annotations

import ast
import pkgutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

import tidelog.model
from tidelog.model.config import ConfigKey, ConfigKeys

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tidelog"

# Kept and shown for whoever sets them.
KEPT_ONLY: set[str] = set()


def names_read(source: str) -> set[str]:
    """Every name that code refers to, as a bare name or an attribute. Imports alone do not count."""
    read = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.add(node.id)
        elif isinstance(node, ast.Attribute):
            read.add(node.attr)
    return read


def path_of(module: ModuleType) -> Path:
    """Of the source, also where an extension was imported in its place."""
    return SOURCE.parent.joinpath(*module.__name__.split(".")).with_suffix(".py")


def own(module: ModuleType) -> dict[str, object]:
    """What a module itself defines at its top, without what it imports."""
    statements = ast.parse(path_of(module).read_text()).body
    assigned = [target for each in statements if isinstance(each, ast.Assign) for target in each.targets]
    names = {target.id for target in assigned if isinstance(target, ast.Name)}
    return {name: value for name, value in vars(module).items() if name in names}


def keys_declared() -> dict[ModuleType, dict[str, ConfigKey[object]]]:
    """The modules that declare configuration keys, and the keys by the names of their constants."""
    names = [each.name for each in pkgutil.iter_modules(tidelog.model.__path__, "tidelog.model.")]
    declared = {
        module: {name: value for name, value in own(module).items() if isinstance(value, ConfigKey)}
        for module in map(import_module, names)
    }
    return {module: keys for module, keys in declared.items() if keys}


def keys_unread() -> dict[str, set[str]]:
    """By module, the keys that no code outside of the declarations reads."""
    declared = keys_declared()
    declaring = {path_of(module) for module in declared}
    read: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if path.resolve() not in declaring:
            read |= names_read(path.read_text())
    return {module.__name__: set(keys) - read for module, keys in declared.items()}


def test_every_declared_key_is_read() -> None:
    unread = keys_unread()

    assert len(unread) > len(KEPT_ONLY)
    assert {name: keys for name, keys in unread.items() if keys and name not in KEPT_ONLY} == {}


def test_an_exception_ends_when_its_keys_are_read() -> None:
    unread = keys_unread()

    assert {name for name in KEPT_ONLY if not unread[name]} == set()


def test_an_import_is_not_a_reading() -> None:
    assert "SEGMENT_MS" not in names_read("from tidelog.model.topic_config import SEGMENT_MS")
    assert "SEGMENT_MS" in names_read("from tidelog.model import topic_config as t\nx = t.SEGMENT_MS.default")


def test_every_key_is_in_its_table() -> None:
    for module, keys in keys_declared().items():
        tables = [value for value in own(module).values() if isinstance(value, ConfigKeys)]
        assert any({key.name for key in keys.values()} <= set(table) for table in tables), module.__name__
