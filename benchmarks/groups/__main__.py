"""Consumer groups on Tidelog beside Apache Kafka 4.3.1, in one run.

python -m benchmarks.groups [--quick] [--rows NAME,NAME] [--rounds N] [--json FILE] [--against CHECKOUT]
"""

from __future__ import annotations

from benchmarks.broker.contestants import Contestants
from benchmarks.groups.exchanges import Replayer
from benchmarks.groups.rows import FULL, QUICK, ROWS, SETTINGS, Run
from benchmarks.sitting import Sitting, main


def measure(sitting: Sitting[Run]) -> None:
    """Whatever ends it, no process and no file of a broker is left."""
    replayer = Replayer.built()
    sizes = QUICK if sitting.is_quick else FULL
    with Contestants(sitting.folder, sitting.peer, SETTINGS).running_pair(sitting.say) as pair:
        run = Run(pair, sitting.results, replayer, sizes, sitting.rounds, sitting.say)
        run.prepare()
        sitting.go_over(run)


if __name__ == "__main__":
    main("groups", "groups beside Apache Kafka", ROWS, measure)
