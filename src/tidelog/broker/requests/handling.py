"""The table of handlers: which function answers which API.

    @handles(ListOffsetsRequest)
    def list_offsets(request: ListOffsetsRequest, caller: Caller, node: Node) -> Answer[ListOffsetsResponse]: ...

A handler is a plain function. It returns the answer, a `Pending` that completes on an event, or None where the protocol wants no
answer; that of Produce also a `ProduceAnswer`, which is sent when the gather of its read is closed. It raises nothing: what a
client did wrong is an error code in the answer, and an exception is a bug.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from tidelog.model.pending import Pending
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.schema import Request, Response

Q = TypeVar("Q", bound=Request)
A = TypeVar("A", bound=Response)

Answer: TypeAlias = A | Pending[A]


class Handler(NamedTuple):
    """One API that this node answers. `versions` are the ones it announces and takes."""

    key: ApiKey
    lowest: int
    highest: int
    answer: Callable[[Any, Any, Any], Response | Pending[Any] | None]
    listener_kinds: tuple[str, ...] = ("broker",)
    purpose: str = ""
    """In a few words, of an API that has no file of its own to say it."""
    wakes: bool = False
    """Whether an answer that comes later wakes somebody who sleeps: it leaves at once, not at the end of the loop's turn."""


Interposer: TypeAlias = Callable[[Callable[[Any, Any, Any], Any], Any, Any, Any], Any]
"""What stands between a listener and its handlers: it is given the handler and what that would be, and answers as a handler does.
To hold the answer of a Produce in its hands it asks for a caller without a gather (`Caller.apart`)."""

HANDLERS: dict[int, Handler] = {}


def handles(
    request: type[Q],
    *,
    versions: tuple[int, int] | None = None,
    listeners: tuple[str, ...] | None = None,
    purpose: str = "",
    wakes: bool = False,
) -> Callable[[Callable[[Q, Any, Any], Any]], Callable[[Q, Any, Any], Any]]:
    """Registers the handler of a request, for all stable versions of its API and all kinds of listener, or for fewer."""

    def register(function: Callable[[Q, Any, Any], Any]) -> Callable[[Q, Any, Any], Any]:
        asked = api(request.api_key)
        lowest, highest = versions or (asked.stable_versions.lowest, asked.stable_versions.highest)
        if asked.key in HANDLERS:
            raise TypeError(f"{asked.name} has two handlers")
        HANDLERS[asked.key] = Handler(
            asked.key, lowest, highest, function, listeners or asked.listener_kinds, purpose, wakes
        )
        return function

    return register
