"""Prints what `make coverage` has measured, a line for each package: statements and branches that tests run through.

.venv/bin/python tools/coverage_by_package.py [data file]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path, PurePath

REPOSITORY = Path(__file__).resolve().parent.parent

# Packages of packages, of which each is told by itself.
_WIDE = {"tidelog/broker", "tidelog/client", "tidelog/coordination", "tidelog/spark"}


def package_of(path: str) -> str:
    parts = PurePath(path).parts
    within = parts[parts.index("src") + 1 : -1]
    depth = 3 if "/".join(within[:2]) in _WIDE else 2
    return "/".join(within[:depth])


def main() -> None:
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-m", "coverage", "json", "-q", "-o", report.name]
        command += [f"--data-file={sys.argv[1]}"] if len(sys.argv) > 1 else []
        subprocess.run(command, cwd=REPOSITORY, check=True)
        files = json.loads(Path(report.name).read_text())["files"]
    packages: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for path, measured in files.items():
        summary = measured["summary"]
        for name in (package_of(path), "all"):
            found = packages[name]
            found[0] += summary["num_statements"]
            found[1] += summary["covered_lines"] + summary["covered_branches"]
            found[2] += summary["num_statements"] + summary["num_branches"]
    print(f"{'PACKAGE':<36}{'LINES':>8}{'COVERED':>9}")
    for name, (statements, covered, known) in sorted(packages.items(), key=lambda each: (each[0] == "all", each[0])):
        print(f"{name:<36}{statements:>8}{100 * covered / known if known else 100:>8.1f}%")


if __name__ == "__main__":
    main()
