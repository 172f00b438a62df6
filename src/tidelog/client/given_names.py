"""Names as callers give them, checked before anybody is asked: a text where a list belongs would be a list of its letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def names_of(names: Iterable[str], what: str) -> list[str]:
    """The names in their order, each once. TypeError for a single text, and for what is none; `what` names them all."""
    if isinstance(names, str | bytes):
        raise TypeError(f"{what} are given as a list of names, as in [{str(names)!r}], not as {names!r}")
    return list(dict.fromkeys(checked_name(name, what) for name in names))


def checked_name(name: object, what: str) -> str:
    """TypeError for what is no text."""
    if not isinstance(name, str):
        raise TypeError(f"{what} are named by text, not by {type(name).__name__}: {name!r}")
    return name


def given_topics(topics: tuple[Any, ...]) -> Iterable[str]:
    """The topics of `Consumer("orders", "payments")`; a single list of them will do as well."""
    is_list = len(topics) == 1 and isinstance(topics[0], list | tuple | set | frozenset)
    given: Iterable[str] = topics[0] if is_list else topics
    return given
