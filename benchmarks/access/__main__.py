"""A node with 1,000 ACLs, and one with quotas that nobody comes near, beside the same node with neither, in one run.

python -m benchmarks.access [--quick] [--rows NAME,NAME] [--rounds N] [--json FILE]
"""

from __future__ import annotations

from benchmarks.access.rows import ROWS, Run
from benchmarks.access.rules import OpenNode
from benchmarks.broker.course import FULL, QUICK
from benchmarks.broker.load_client import LoadClient
from benchmarks.sitting import Sitting, main


def measure(sitting: Sitting[Run]) -> None:
    """Whatever ends it, no process and no file is left."""
    sitting.go_over(Run(sitting, LoadClient.built(), QUICK if sitting.is_quick else FULL))


if __name__ == "__main__":
    main("access", "ACLs and quotas beside a node without them", ROWS, measure, peer=OpenNode)
