"""Ctrl-C in the middle of a command."""

from __future__ import annotations

import warnings

from tidelog.cli.interrupts import forget_what_was_interrupted


async def poll() -> None:
    raise AssertionError("nobody waits for it")


def test_a_call_that_ctrl_c_came_before_is_not_complained_of() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call = poll()
        forget_what_was_interrupted()
        del call

    assert told == []
