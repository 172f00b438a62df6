"""Share groups on Tidelog beside Apache Kafka 4.3.1, in one run.

python -m benchmarks.share [--quick] [--rows NAME,NAME] [--rounds N] [--json FILE] [--against CHECKOUT]
"""

from __future__ import annotations

from benchmarks.broker.contestants import Contestants
from benchmarks.broker.course import FULL as BROKER_FULL, QUICK as BROKER_QUICK, Course
from benchmarks.broker.load_client import Job, LoadClient
from benchmarks.broker.rows import PARTITIONS_1K, PRODUCE_1K, SIZE_1K
from benchmarks.share.rows import FULL, QUICK, ROWS, SETTINGS, Run
from benchmarks.sitting import Sitting, main


def measure(sitting: Sitting[Run]) -> None:
    """Whatever ends it, no process and no file of a broker is left."""
    sizes = QUICK if sitting.is_quick else FULL
    broker_sizes = BROKER_QUICK if sitting.is_quick else BROKER_FULL
    contestants = Contestants(sitting.folder, sitting.peer, SETTINGS)
    with Course(sitting.results, contestants, LoadClient.built(), broker_sizes, sitting.rounds, sitting.say) as course:
        running_in = Job("produce", PARTITIONS_1K, broker_sizes.records_1k, SIZE_1K, PRODUCE_1K)
        sitting.go_over(Run(course, sizes, course.shared_pair(running_in=running_in)))


if __name__ == "__main__":
    main("share", "share groups beside Apache Kafka", ROWS, measure)
