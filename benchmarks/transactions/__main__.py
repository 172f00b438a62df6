"""Transactions on Tidelog beside Apache Kafka 4.3.1, in one run.

python -m benchmarks.transactions [--quick] [--rows NAME,NAME] [--rounds N] [--json FILE] [--against CHECKOUT]
"""

from __future__ import annotations

from benchmarks.broker.contestants import Contestants
from benchmarks.sitting import Sitting, main
from benchmarks.transactions.load_program import LoadProgram
from benchmarks.transactions.rows import FULL, QUICK, ROWS, Run


def measure(sitting: Sitting[Run]) -> None:
    """Whatever ends it, no process and no file of a broker is left."""
    load = LoadProgram.built()
    sizes = QUICK if sitting.is_quick else FULL
    with Contestants(sitting.folder, sitting.peer).running_pair(sitting.say) as pair:
        run = Run(pair, sitting.results, load, sizes, sitting.rounds, sitting.say)
        run.prepare()
        sitting.go_over(run)


if __name__ == "__main__":
    main("transactions", "transactions beside Apache Kafka", ROWS, measure)
