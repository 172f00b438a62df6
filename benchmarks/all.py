"""Runs every family of benchmarks, one after the other, and ends with 1 where any goal was missed.

python -m benchmarks.all [FAMILY]...      all families if none is named; each prints its table and writes results/FAMILY.json
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
    "transactions": {},
    "fairness": {},
    "compaction": {},
    "records": {},
    "plain_records": {"TIDELOG_KERNELS": "python"},
    "messages": {},
    "net": {},
    "storage": {},
    "metrics": {},
    "clients": {},
    "consumers": {},
    "spark_source": {},
    "spark_sink": {},
    "spark_stream": {},
}


def main() -> None:
    wanted = sys.argv[1:] or list(FAMILIES)
    unknown = sorted(set(wanted) - set(FAMILIES))
    if unknown:
        sys.exit(f"no such family: {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    # A process of its own for each: what one imports or allocates must not weigh on the next.
    missed = []
    for family in wanted:
        print(f"\n== {family}", flush=True)
        environment = {**os.environ, **FAMILIES[family]}
        if subprocess.run([sys.executable, "-m", f"benchmarks.{family}"], env=environment, check=False).returncode != 0:
            missed.append(family)
    if missed:
        sys.exit(f"goals were missed, or the run failed, in: {', '.join(missed)}")


if __name__ == "__main__":
    main()
