"""JSON answers, pages of lists, and streams of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from tidelog.client.errors import ClientError
from tidelog.console.serving.api_error import ApiError, api_error_of

Json = Any

# A row or plan longer than this is no page for a person.
PAGE_MAX = 1000
PAGE_DEFAULT = 100
_OFFSET_MAX = 10_000_000

# Proxies and browsers give up on silence; a comment is none.
_ALIVE_S = 15.0

_encoder = msgspec.json.Encoder()


def json_bytes(value: Json) -> bytes:
    return _encoder.encode(value)


def json_answer(value: Json, status: int = 200) -> Response:
    return Response(json_bytes(value), status, media_type="application/json")


def page(
    rows: Iterable[Mapping[str, Json]],
    query: Mapping[str, str],
    *,
    sorts: Mapping[str, Callable[[Any], Any]],
    default: str,
) -> tuple[int, list[Any]]:
    """How many rows there are, and those that `sort`, `desc`, `offset` and `limit` ask for. What is unknown (None) is last."""
    name = query.get("sort") or default
    key = sorts.get(name)
    if key is None:
        raise ApiError(400, "BAD_REQUEST", f"rows cannot be sorted by {name!r:.60}: {', '.join(sorts)}")
    listed = list(rows)
    known = [row for row in listed if key(row) is not None]
    unknown = [row for row in listed if key(row) is None]
    known.sort(key=key, reverse=flag(query, "desc"))
    start = whole(query, "offset", 0, at_most=_OFFSET_MAX)
    count = whole(query, "limit", PAGE_DEFAULT, at_least=1, at_most=PAGE_MAX)
    return len(listed), (known + unknown)[start : start + count]


def whole(query: Mapping[str, Any], name: str, default: int, *, at_least: int = 0, at_most: int = 2**63 - 1) -> int:
    """A number of a query. ApiError for what is none, or out of range."""
    text = query.get(name)
    if text is None or text == "":
        return default
    written = str(text)
    bare = written.removeprefix("-")
    if not (bare.isascii() and bare.isdigit() and len(bare) <= 19) or not at_least <= int(written) <= at_most:
        raise ApiError(400, "BAD_REQUEST", f"{name} is {written!r:.60}: a whole number from {at_least} to {at_most}")
    return int(written)


def flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "")
    if text not in {"", "0", "1", "true", "false"}:
        raise ApiError(400, "BAD_REQUEST", f"{name} is {text!r:.60}: 0 or 1")
    return text in {"1", "true"}


def choice(query: Mapping[str, str], name: str, choices: Sequence[str]) -> str:
    """One of some words, the first where nothing is said."""
    text = query.get(name) or choices[0]
    if text not in choices:
        raise ApiError(400, "BAD_REQUEST", f"{name} is {text!r:.60}: one of {', '.join(choices)}")
    return text


Event = tuple[str, Json]


def event_bytes(name: str, value: Json) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), json_bytes(value))


def event_stream(events: AsyncGenerator[Event]) -> Response:
    """Server-sent events. An error amid them is the event `problem`, after which the stream ends."""
    return StreamingResponse(
        _as_bytes(events),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no", "Cache-Control": "no-store"},
    )


async def _as_bytes(events: AsyncGenerator[Event]) -> AsyncGenerator[bytes]:
    # A client that gives up early must not leave the source running: closing this generator closes that one.
    async with aclosing(events) as source:
        iterator = aiter(source)
        pending: asyncio.Task[Event] | None = None
        try:
            while True:
                if pending is None:
                    pending = asyncio.ensure_future(anext(iterator))
                done, _ = await asyncio.wait({pending}, timeout=_ALIVE_S)
                if not done:
                    yield b": alive\n\n"
                    continue
                finished, pending = pending, None
                yield event_bytes(*finished.result())
        except StopAsyncIteration:
            return
        except ApiError as error:
            yield event_bytes("problem", error.as_json())
        except ClientError as error:
            yield event_bytes("problem", api_error_of(error).as_json())
        finally:
            if pending is not None:
                pending.cancel()
                # Its end has to be waited for, or the source cannot be closed.
                await asyncio.gather(pending, return_exceptions=True)
