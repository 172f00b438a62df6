"""Where callbacks of the application run: right here, on the loop, for an asynchronous client."""

from __future__ import annotations

import inspect
from collections.abc import Callable


async def call_here(callback: Callable[[], object]) -> object:
    outcome = callback()
    return await outcome if inspect.isawaitable(outcome) else outcome
