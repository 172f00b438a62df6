"""What a file declares may be wrong without an error on the spot: `validation` tells all mistakes at once.

A class that is `@lenient` takes arguments that it does not know, or misses some that it needs, and keeps a sentence for each in
`mistakes`. What is missing is None.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, TypeVar

from tidelog.model.config import did_you_mean

_Declared = TypeVar("_Declared", bound="Declaration")


class Declaration:
    """The base of all that a file declares."""

    __slots__ = ("mistakes",)

    mistakes: tuple[str, ...]
    """Wrong arguments, each a sentence."""


def lenient(declared: type[_Declared]) -> type[_Declared]:
    """Have a dataclass keep wrong arguments in mind instead of raising TypeError."""
    make = declared.__init__
    parameters = dict(list(inspect.signature(make).parameters.items())[1:])
    positional = [name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    required = [name for name, each in parameters.items() if each.default is each.empty]
    title = declared.__name__

    @functools.wraps(make)
    def init(self: _Declared, *values: Any, **named: Any) -> None:
        mistakes = []
        if len(values) > len(positional):
            mistakes.append(f"{title} is given {len(values)} arguments without names, and takes {len(positional)} such")
        given = dict(zip(positional, values, strict=False))
        for name, value in named.items():
            if name not in parameters:
                mistakes.append(f"{title} has no argument {name}{did_you_mean(name, parameters)}")
            elif name in given:
                mistakes.append(f"{title} is given {name} twice")
            else:
                given[name] = value
        for name in required:
            if name not in given:
                mistakes.append(missing(title, name))
                given[name] = None
        make(self, **given)
        # With the line, as Python's own TypeError would have it.
        where = f" (line {sys._getframe(1).f_lineno})" if mistakes else ""  # noqa: SLF001
        object.__setattr__(self, "mistakes", tuple(each + where for each in mistakes))

    declared.__init__ = init  # type: ignore[assignment,method-assign]
    return declared


def missing(title: str, name: str) -> str:
    """How the sentence about an argument that was not given begins."""
    return f"{title} needs {name}="
