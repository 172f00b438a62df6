"""Runs every family of benchmarks, one after the other, and ends with 1 where any goal was missed.

python -m benchmarks.all [FAMILY]...       all families if none is named; each prints its table and writes results/FAMILY.json
python -m benchmarks.all --against CHECKOUT [FAMILY]...     beside the node of another checkout instead: before and after
"""

from __future__ import annotations

import os
import subprocess
import sys

# The family, and what its process finds in its environment.
FAMILIES: dict[str, dict[str, str]] = {
    "broker": {},
    "cluster": {},
    "groups": {},
    "share": {},
    "transactions": {},
    "sessions": {},
    "floor": {},
    "tls": {},
    "access": {},
    "fairness": {},
    "compaction": {},
    "records": {},
    "plain_records": {"TIDELOG_KERNELS": "python"},
    "messages": {},
    "net": {},
    "storage": {},
    "metrics": {},
    "instructions": {},
    "clients": {},
    "consumers": {},
    "spark_source": {},
    "spark_sink": {},
    "spark_stream": {},
    "spark_commit": {},
    "delta_append": {},
    "delta_merge": {},
    "pipeline_kit": {},
}


# Those that can have the node of another checkout beside ours: `--against` runs these, and nobody else.
BESIDE_BEFORE = ("broker", "cluster", "groups", "share", "transactions", "sessions", "instructions")


def main() -> None:
    arguments = sys.argv[1:]
    against: list[str] = []
    if arguments[:1] == ["--against"] and len(arguments) > 1:
        against, arguments = arguments[:2], arguments[2:]
    wanted = arguments or list(BESIDE_BEFORE if against else FAMILIES)
    unknown = sorted(set(wanted) - set(FAMILIES))
    if unknown:
        sys.exit(f"no such family: {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    # A process of its own for each: what one imports or allocates must not weigh on the next.
    missed = []
    for family in wanted:
        print(f"\n== {family}", flush=True)
        environment = {**os.environ, **FAMILIES[family]}
        if (
            subprocess.run(
                [sys.executable, "-m", f"benchmarks.{family}", *against], env=environment, check=False
            ).returncode
            != 0
        ):
            missed.append(family)
    if missed:
        sys.exit(f"goals were missed, or the run failed, in: {', '.join(missed)}")


if __name__ == "__main__":
    main()
