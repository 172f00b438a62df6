"""Says in one line what a target needs that PyPI does not have.

python tools/prerequisites.py PROGRAM...      exits with 1 and one line a missing program, with the package to install
"""

from __future__ import annotations

import shutil
import sys

PACKAGES = {
    "cc": "gcc",
    "go": "golang-go",
    "java": "openjdk-17-jre-headless",
    "javac": "openjdk-17-jdk-headless",
    "kcat": "kcat",
    "node": "nodejs",
    "npm": "npm",
    "mvn": "maven",
}


def main() -> None:
    missing = [program for program in sys.argv[1:] if shutil.which(program) is None]
    for program in missing:
        print(f"{program} is missing: install the Debian package {PACKAGES.get(program, program)}", file=sys.stderr)
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
