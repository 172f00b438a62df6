"""What a kernel names of Cython's `cython` module, for running as plain Python where Cython is not installed.

Annotations are never evaluated, so that only decorators and `compiled` are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

T = TypeVar("T")

compiled = False


def _as_it_is(decorated: T) -> T:
    return decorated


cclass = ccall = cfunc = final = inline = no_gc = _as_it_is


class _NoGil(AbstractContextManager[None]):
    """`nogil`, around a block or before a function."""

    def __call__(self, decorated: T) -> T:
        return decorated

    def __exit__(self, *_raised: object) -> None:
        return None


nogil = _NoGil()

# The names of C types, as far as they are passed at run time.
Py_ssize_t = longlong = int


def exceptval(_value: int = -1, *, check: bool = True) -> Callable[[T], T]:  # noqa: ARG001 - Cython's signature
    return _as_it_is


def declare(_c_type: type, value: T) -> T:
    return value


def cast(_c_type: type, value: T) -> T:
    return value
