"""Instructions that a node takes for each operation, by callgrind: the same count on a busy machine as on a quiet one.

    python -m benchmarks.instructions [--rows NAME,NAME] [--against CHECKOUT] [--times N] [--keep DIRECTORY]

A row that is another one with something besides, such as ACLs, has its ratio to that one, which is counted as well. `--against`
counts the node of another checkout (with a .venv of its own, such as of an earlier commit) as well, and prints the ratio; what
that checkout does not have is left out. `--keep` leaves callgrind's files there, one for each operation, for
`callgrind_annotate`. Only the node's own process counts, without the kernel. Counts repeat to about one per cent: what differs is
how many requests one read happens to bring, and what the node does by the clock.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.circumstances import machine, positive
from benchmarks.instructions.counted_node import CountedNode, CountingError, check_valgrind, own_checkout
from benchmarks.instructions.encrypted import ENCRYPTED
from benchmarks.instructions.guarded import GUARDED
from benchmarks.instructions.operations import OPERATIONS as PLAIN_OPERATIONS, Operation, Setting
from benchmarks.instructions.traced import TRACED

RESULTS = Path(__file__).resolve().parent.parent / "results"
# Turns before the count: caches are filled, code is specialised by the interpreter.
WARM_UP = 30

OPERATIONS: dict[str, type[Operation]] = {**PLAIN_OPERATIONS, **GUARDED, **ENCRYPTED, **TRACED}


def counted(
    checkout: Path, names: Sequence[str], keep: Path, times: int | None, *, may_lack: bool = False
) -> dict[str, float]:
    """Instructions of one turn, by operation; each has a node of its own. `may_lack`: what a row has besides may be newer than
    the checkout, and such a row is left out."""
    results: dict[str, float] = {}
    for name in names:
        kind = OPERATIONS[name]
        try:
            results[name] = instructions_of(kind, checkout, keep / name, times or kind.times)
        except (CountingError, ConnectionError, RuntimeError) as error:
            if not may_lack or kind.without is None:
                raise
            print(f"  {kind.name}: left out: {error}", file=sys.stderr, flush=True)
        else:
            print(f"  {kind.name}: {results[name]:,.0f}", file=sys.stderr, flush=True)
        finally:
            for left in ("data", "identities"):
                shutil.rmtree(keep / name / left, ignore_errors=True)
    return results


def instructions_of(kind: type[Operation], checkout: Path, directory: Path, turns: int) -> float:
    warm_up = WARM_UP if kind.times >= WARM_UP else 2
    with CountedNode(checkout, directory, kind.node_settings, kind.listeners, is_watched=kind.is_watched) as node:
        operation = kind(Setting(node))
        operation.prepare(warm_up + turns)
        for number in range(warm_up):
            operation.turn(number)
        with node.counting(directory.name) as instructions:
            for number in range(warm_up, warm_up + turns):
                operation.turn(number)
    return instructions[0] / turns


def with_those_without(names: Sequence[str]) -> list[str]:
    """The rows that were asked for, and before each the one it is held against."""
    wanted: list[str] = []
    for name in names:
        for each in (OPERATIONS[name].without, name):
            if each is not None and each not in wanted:
                wanted.append(each)
    return wanted


def over_without(name: str, counted: dict[str, float]) -> float | None:
    """What an operation takes over the same without what it has besides. None where it has nothing."""
    without = OPERATIONS[name].without
    return None if without is None or name not in counted else counted[name] / counted[without]


def table(names: Sequence[str], ours: dict[str, float], before: dict[str, float] | None) -> str:
    """Instructions for one turn; a round trip is two requests, a pipeline as many as it says."""
    ratios = {name: over_without(name, ours) for name in names}
    is_held = any(ratios.values())
    heading = [
        "operation",
        "instructions",
        *(["over without"] if is_held else []),
        *(["before", "ratio"] if before else []),
    ]
    rows = [heading]
    for name in names:
        row = [OPERATIONS[name].name, f"{ours[name]:,.0f}"]
        if is_held:
            ratio = ratios[name]
            row.append("" if ratio is None else f"{ratio:.3f}")
        if before:
            row += [f"{before[name]:,.0f}", f"{ours[name] / before[name]:.3f}"] if name in before else ["-", "-"]
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(heading))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", help=f"some of {', '.join(OPERATIONS)}")
    parser.add_argument("--against", type=Path, help="another checkout, with a .venv of its own")
    parser.add_argument("--times", type=positive, help="how often each operation is done while it is counted")
    parser.add_argument("--keep", type=Path, help="where callgrind's files are left")
    options = parser.parse_args()
    names = options.rows.split(",") if options.rows else list(OPERATIONS)
    if unknown := [name for name in names if name not in OPERATIONS]:
        sys.exit(f"no such row: {', '.join(unknown)}; there are {', '.join(OPERATIONS)}")
    names = with_those_without(names)
    try:
        check_valgrind()
        with tempfile.TemporaryDirectory() as temporary:
            keep = options.keep or Path(temporary)
            ours = counted(own_checkout(), names, keep / "now", options.times)
            before = None
            if options.against is not None:
                before = counted(options.against.resolve(), names, keep / "before", options.times, may_lack=True)
    except CountingError as error:
        sys.exit(str(error))
    print(table(names, ours, before))
    RESULTS.mkdir(exist_ok=True)
    ratios = {name: ratio for name in names if (ratio := over_without(name, ours)) is not None}
    written = {"machine": machine(), "instructions": ours, "over_without": ratios, "before": before}
    (RESULTS / "instructions.json").write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
