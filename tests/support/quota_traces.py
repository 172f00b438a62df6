"""Histories of limits and of what clients take, and what they come to by our arithmetic: for comparison with Kafka's.

A trace is what `tests/compat/QuotaOracle.java` reads. Some hundred of them with Kafka's numbers are kept in
`tests/fixtures/quota_traces.json.gz`.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

from tidelog.broker.quotas.client_quotas import DEFAULT, ClientQuotas, LimitOf

RECORDED = Path(__file__).parent.parent / "fixtures" / "quota_traces.json.gz"

USERS = ("alice", "bob", "CN=é, OU=x")
CLIENT_IDS = ("p", "q", "")

# What Kafka says of a step that has no number.
NONE = -1.0
# Kafka's `Double.MAX_VALUE`: no limit to a single fetch.
UNLIMITED = 1.7976931348623157e308

Trace = dict[str, Any]


def make_trace(seed: int) -> Trace:
    random = Random(seed)
    is_bucket = seed % 3 == 2
    windows, window_seconds = random.choice([(11, 1), (11, 1), (2, 1), (3, 2), (1, 1)])
    is_percentage = not is_bucket and seed % 5 == 0
    steps: list[dict[str, Any]] = [
        {"at": 0, "limits": [_limit(random, is_bucket) for _ in range(random.randint(1, 4))]}
    ]
    at = random.randrange(5_000)
    for _ in range(random.randint(10, 60)):
        at += random.randrange(random.choice([1, 1, 2, 50, 1_500, 1_500, 30_000]))
        if random.random() < 0.08:
            steps.append({"at": at, "limits": [_limit(random, is_bucket, may_remove=True)]})
            continue
        step: dict[str, Any] = {"at": at, "user": random.choice(USERS), "client_id": random.choice(CLIENT_IDS)}
        if is_bucket:
            step["value"] = random.choice([0, 1, 3, random.randrange(100)])
            step["strict"] = random.random() < 0.5
        else:
            step["value"] = (
                random.random() * 120 if is_percentage else random.choice([0, 100, random.randrange(30_000)])
            )
            if random.random() < 0.1:
                step["unrecord"] = True
            elif random.random() < 0.1:
                step["most"] = True
        steps.append(step)
    return {
        "kind": "bucket" if is_bucket else "rate",
        "windows": windows,
        "window_seconds": window_seconds,
        "steps": steps,
    }


def _limit(random: Random, is_bucket: bool, *, may_remove: bool = False) -> list[Any]:
    names: list[str | None] = [None, None]
    while names == [None, None]:
        names = [random.choice([None, "<default>", *USERS]), random.choice([None, "<default>", *CLIENT_IDS[:2]])]
    value = random.choice([0.5, 1.0, 7.5]) if is_bucket else random.choice([1.0, 50.0, 1_000.0, 12_345.0])
    return [*names, None if may_remove and random.random() < 0.5 else value]


def played(trace: Trace) -> list[float]:
    """Our numbers, one for each step."""
    quotas = ClientQuotas(trace["windows"], trace["window_seconds"] * 1000)
    limits: dict[LimitOf, float] = {}
    numbers = []
    for step in trace["steps"]:
        if "limits" in step:
            for user, client_id, value in step["limits"]:
                of = LimitOf(*(DEFAULT if each == "<default>" else each for each in (user, client_id)))
                limits.pop(of, None)
                if value is not None:
                    limits[of] = value
            quotas.set_limits(dict(limits))
            numbers.append(NONE)
        else:
            numbers.append(float(_step(quotas, step)))
    return numbers


def _step(quotas: ClientQuotas, step: dict[str, Any]) -> float:
    at, value = step["at"], step["value"]
    if not quotas.is_on and "unrecord" not in step:
        return UNLIMITED if "most" in step else NONE if step.get("strict") else 0
    account = quotas.account(step["user"], step["client_id"], at)
    if "most" in step:
        most = account.most_at_once()
        return UNLIMITED if most is None else most
    if "unrecord" in step:
        account.record_unthrottled(-value, at)
        return NONE
    if "strict" in step:
        if not step["strict"]:
            return account.take(value, at)
        waits_ms = account.take_if_paid(value, at)
        return NONE if waits_ms is None else waits_ms
    return account.record(value, at)


def recorded() -> list[tuple[Trace, list[float]]]:
    """Kept traces with Kafka's numbers."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as file:
        return [(each["trace"], each["kafka"]) for each in json.load(file)]


def write_recorded(traces: list[tuple[Trace, list[float]]]) -> None:
    text = json.dumps([{"trace": trace, "kafka": kafka} for trace, kafka in traces], separators=(",", ":"))
    RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))
