"""Three nodes of Tidelog beside three of Apache Kafka 4.3.1, in one run.

python -m benchmarks.cluster [--quick] [--rows NAME,NAME] [--rounds N] [--json FILE] [--against CHECKOUT]
"""

from __future__ import annotations

from benchmarks.broker.load_client import LoadClient
from benchmarks.cluster.clusters import Clusters
from benchmarks.cluster.rows import FULL, QUICK, ROWS, Run
from benchmarks.sitting import Sitting, main


def measure(sitting: Sitting[Run]) -> None:
    """Whatever ends it, no process and no file of a broker is left."""
    # No other kind of program makes a cluster.
    assert not isinstance(sitting.peer, type)
    clusters = Clusters(sitting.folder, sitting.peer)
    sizes = QUICK if sitting.is_quick else FULL
    with Run(clusters, sitting.results, LoadClient.built(), sizes, sitting.rounds, sitting.say) as run:
        sitting.go_over(run)


if __name__ == "__main__":
    main("cluster", "three nodes beside three of Apache Kafka", ROWS, measure)
