"""What a kernel names of Cython's `cython` module, for its plain twin: that runs without Cython, also where Cython is installed.

Has every name that any kernel uses (`tests/repo/test_kernels.py`), whether plain Python gets to it or not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NoReturn, TypeVar

T = TypeVar("T")

compiled = False

NULL = None


def _as_it_is(decorated: T) -> T:
    return decorated


cclass = cfunc = final = inline = no_gc = _as_it_is


class _NoGil(AbstractContextManager[None]):
    """`nogil`, around a block or before a function."""

    def __call__(self, decorated: T) -> T:
        return decorated

    def __exit__(self, *_raised: object) -> None:
        return None


nogil = _NoGil()


class CType:
    """Any type of C, also an array, a pointer or a constant of one: plain Python only passes it on."""

    def __class_getitem__(cls, _of: object) -> type[CType]:
        return cls


Py_ssize_t = bint = char = const = int = longlong = p_char = p_uchar = pointer = uchar = uint = ulonglong = void = CType  # noqa: A001 - C's name


def exceptval(_value: object = -1, *, check: bool = True) -> Callable[[T], T]:  # noqa: ARG001 - Cython's signature
    return _as_it_is


def declare(_c_type: object, value: T | None = None) -> T | None:
    return value


def cast(_c_type: object, value: T) -> T:
    return value


def address(_value: object) -> NoReturn:
    raise TypeError("only a compiled kernel takes addresses")
