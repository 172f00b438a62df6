"""Round trips of a well-behaved client beside others that are not, on Tidelog beside Apache Kafka 4.3.1, in one run.

python -m benchmarks.fairness [--quick] [--rows NAME,NAME] [--rounds N] [--json FILE] [--against CHECKOUT]
"""

from __future__ import annotations

from benchmarks.broker.contestants import Contestants
from benchmarks.broker.idle_connections import raise_open_files_limit
from benchmarks.fairness.rows import FULL, QUICK, ROWS, Run
from benchmarks.sitting import Sitting, main


def measure(sitting: Sitting[Run]) -> None:
    """Whatever ends it, no process and no file of a broker is left."""
    sizes = QUICK if sitting.is_quick else FULL
    # Nodes and attackers inherit the limit.
    raise_open_files_limit(2 * sizes.consumers)
    with Contestants(sitting.folder, sitting.peer).running_pair(sitting.say) as pair:
        run = Run(pair, sitting.results, sizes, sitting.rounds, sitting.say)
        run.prepare()
        sitting.go_over(run)


if __name__ == "__main__":
    main("fairness", "what clients wait for each other, beside Apache Kafka", ROWS, measure)
