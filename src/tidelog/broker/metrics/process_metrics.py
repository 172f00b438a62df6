"""What the operating system counts of the process, under the names that all Prometheus clients give it.

Only for a node that has a process of its own machine under it: the simulator's has none.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tidelog.model.metrics import Registry

_PROC = Path("/proc/self")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def register_process(registry: Registry) -> None:
    """Declare what this system tells; without a /proc that is the processor's time alone."""
    registry.counted(
        "process_cpu_seconds_total", "Seconds of processor time, of the user and the system.", time.process_time
    )
    if not (_PROC / "statm").exists():
        return
    registry.gauge("process_resident_memory_bytes", "Bytes of memory that are in use.", lambda: _pages(1))
    registry.gauge("process_virtual_memory_bytes", "Bytes of memory that are mapped.", lambda: _pages(0))
    registry.gauge("process_open_fds", "Open descriptors.", lambda: len(os.listdir(_PROC / "fd")))  # noqa: PTH208 - twice as fast
    started = _start_time_seconds()
    registry.gauge("process_start_time_seconds", "When the process began, in seconds since 1970.", lambda: started)


def _pages(column: int) -> int:
    return int((_PROC / "statm").read_bytes().split()[column]) * _PAGE_BYTES


def _start_time_seconds() -> float:
    booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    # Behind the name of the program, which may hold anything: the 22nd field of all.
    ticks = int((_PROC / "stat").read_bytes().rpartition(b")")[2].split()[19])
    return int(booted.split()[1]) + ticks / _TICKS_PER_SECOND
