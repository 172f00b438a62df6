"""Says in one line what a target needs that PyPI does not have.

python tools/prerequisites.py PROGRAM...      exits with 1 and one line a missing program, with the package to install
"""

from __future__ import annotations

import glob
import os
import shutil
import sys

PACKAGES = {
    "cc": "gcc",
    "chromium": "chromium",
    "mariadbd": "mariadb-server",
    "postgres": "postgresql",
    "go": "golang-go",
    "java": "openjdk-17-jre-headless",
    "javac": "openjdk-17-jdk-headless",
    "kcat": "kcat",
    "node": "nodejs",
    "npm": "npm",
    "mvn": "maven",
}


# Debian keeps servers where no shell looks for them, PostgreSQL by version.
SERVERS = {"mariadbd": "/usr/sbin/mariadbd", "postgres": "/usr/lib/postgresql/*/bin/postgres"}


def is_there(program: str) -> bool:
    if shutil.which(program) is not None:
        return True
    if program == "chromium" and os.environ.get("TIDELOG_CHROMIUM"):
        return True
    return program in SERVERS and bool(glob.glob(SERVERS[program]))  # noqa: PTH207 - from the root


def main() -> None:
    missing = [program for program in sys.argv[1:] if not is_there(program)]
    for program in missing:
        print(f"{program} is missing: install the Debian package {PACKAGES.get(program, program)}", file=sys.stderr)
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
