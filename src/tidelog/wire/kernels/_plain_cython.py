"""What a kernel names of Cython's `cython` module, for running as plain Python where Cython is not installed.

Annotations are never evaluated, so that only decorators and `compiled` are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

compiled = False


def _as_it_is(decorated: T) -> T:
    return decorated


cclass = ccall = cfunc = final = inline = _as_it_is


def exceptval(*, check: bool) -> Callable[[T], T]:  # noqa: ARG001 - Cython's signature
    return _as_it_is
