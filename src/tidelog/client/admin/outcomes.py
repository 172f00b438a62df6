"""What became of each of several things that were asked for at once: its value, or the error that it met.

for name, outcome in (await admin.create_topics([...])).items():
    if isinstance(outcome, ClientError): ...
created = value_of(outcome)                 # or raise the error
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias, TypeVar

from tidelog.client.errors import ClientError, RefusedError, UnknownTopicError, refusal
from tidelog.model.errors import ErrorCode

T = TypeVar("T")
K = TypeVar("K")

Outcome: TypeAlias = "T | ClientError"

# Questions under way at a time, of those that take one request each: a thousand groups are no reason to flood a broker.
QUESTIONS_MAX = 20


def value_of(outcome: T | ClientError) -> T:
    """The value; the error is raised."""
    if isinstance(outcome, ClientError):
        raise outcome
    return outcome


async def each_of(items: Iterable[K], work: Callable[[K], Awaitable[T]]) -> dict[K, T | ClientError]:
    """Do the same for several things side by side. One that fails leaves the others alone."""
    slots = asyncio.Semaphore(QUESTIONS_MAX)

    async def attempt(item: K) -> T | ClientError:
        async with slots:
            try:
                return await work(item)
            except ClientError as error:
                return error

    async with asyncio.TaskGroup() as group:
        tasks = {item: group.create_task(attempt(item)) for item in dict.fromkeys(items)}
    return {item: task.result() for item, task in tasks.items()}


def error_of(code: int, message: str | None = None, *, about: str = "") -> RefusedError | None:
    """The error of an answer, None where there is none."""
    return refusal(code, message, about=about) if code else None


def no_topic(name: str) -> RefusedError:
    return UnknownTopicError(name)


def topic_error(name: str, code: int, message: str | None = None) -> RefusedError | None:
    """The error about a topic, in one and the same sentence where it does not exist."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return no_topic(name)
    # A message of the cluster's names the topic itself.
    return error_of(code, message, about="" if message else f"topic {name}")


def no_group(group_id: str) -> RefusedError:
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")


def group_error(group_id: str, code: int, message: str | None = None) -> RefusedError | None:
    """The error about a group, in plain words where it is one that people meet."""
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return no_group(group_id)
    if code in {ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNKNOWN_MEMBER_ID}:
        sentence = f"group {group_id} has members: stop its consumers first"
        return RefusedError(ErrorCode.of(code), sentence)
    return error_of(code, message, about=f"group {group_id}")
