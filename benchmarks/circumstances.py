"""What the families that run beside Apache Kafka share: the circumstances of a run, and what is said on their command lines."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from benchmarks.broker.contestants import Peer
from benchmarks.broker.figures import BEFORE
from tests.support.apache_kafka import KAFKA_VERSION, ApacheKafka


class Named(Protocol):
    """A row of a table."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


# What the median is taken of where old and new nodes have their turns.
ROUNDS_BESIDE_BEFORE = 5


def peer_of(against: Path | None) -> ApacheKafka | Path:
    """Who is beside our nodes: Apache Kafka, unless another checkout is named."""
    return ApacheKafka.installed() if against is None else against.resolve()


def circumstances(peer: Peer, librdkafka: str, rounds: int, *, is_quick: bool) -> dict[str, str]:
    """Under which a run's figures were taken; `librdkafka` is the version of the load."""
    tidelog = subprocess.run(
        [str(Path(sys.executable).parent / "tidelog"), "version"], capture_output=True, text=True, check=True
    )
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "python": platform.python_version(),
        "tidelog": "; ".join(tidelog.stdout.splitlines()),
        **_told_of(peer),
        "librdkafka": librdkafka,
        "rounds": str(rounds),
        "sizes": "quick" if is_quick else "full",
    }


def _told_of(peer: Peer) -> dict[str, str]:
    if isinstance(peer, Path):
        commit = subprocess.run(
            ["git", "-C", str(peer), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
        )
        return {BEFORE: f"{peer} at {commit.stdout.strip() or 'an unknown commit'}"}
    if isinstance(peer, ApacheKafka):
        return {"kafka": KAFKA_VERSION, "java": peer.java_version()}
    return {peer.name: peer.__name__}


def machine() -> str:
    """Cores, memory and system: enough to know whether two results can be held against each other."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{os.cpu_count()} cores, {pages * page_bytes / 2**30:.0f} GB, {platform.system()} {platform.release()}"


def named(rows: Sequence[N]) -> Callable[[str], tuple[N, ...]]:
    """For `--rows`: those that are named, in the order of the table."""

    def choose(text: str) -> tuple[N, ...]:
        wanted = {name.strip() for name in text.split(",")}
        unknown = sorted(wanted - {row.name for row in rows})
        if unknown:
            there = ", ".join(row.name for row in rows)
            raise argparse.ArgumentTypeError(f"no such row: {', '.join(unknown)}; there are {there}")
        return tuple(row for row in rows if row.name in wanted)

    return choose


def positive(text: str) -> int:
    """For `--rounds`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of rounds")
    return int(text)
