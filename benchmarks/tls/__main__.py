"""Tidelog beside Apache Kafka 4.3.1, both with TLS, in one run.

python -m benchmarks.tls [--quick] [--rows NAME,NAME] [--rounds N] [--json FILE] [--against CHECKOUT]
"""

from __future__ import annotations

from benchmarks.broker.contestants import Contestants
from benchmarks.broker.course import FULL as BROKER_FULL, QUICK as BROKER_QUICK, Course
from benchmarks.broker.load_client import LoadClient
from benchmarks.sitting import Sitting, main
from benchmarks.tls.handshakes import agreed_by
from benchmarks.tls.identities import EC, RSA, Identities
from benchmarks.tls.rows import FULL, QUICK, ROWS, Run, produce_job


def measure(sitting: Sitting[Run]) -> None:
    """Whatever ends it, no process, no key and no file of a broker is left."""
    sizes = QUICK if sitting.is_quick else FULL
    broker_sizes = BROKER_QUICK if sitting.is_quick else BROKER_FULL
    identities = Identities.written(sitting.folder / "identities")
    contestants = Contestants(sitting.folder, sitting.peer, identities.settings(), (EC, RSA))
    with Course(sitting.results, contestants, LoadClient.built(), broker_sizes, sitting.rounds, sitting.say) as course:
        pair = course.shared_pair(running_in=produce_job(broker_sizes.records_1k, identities))
        agreed = agreed_by(pair, (EC, RSA))
        sitting.results.circumstances["tls"] = agreed
        sitting.say(f"both brokers agree on {agreed}")
        sitting.go_over(Run(course, sizes, pair, identities, agreed.split()[1]))


if __name__ == "__main__":
    main("tls", "TLS beside Apache Kafka", ROWS, measure)
