"""Note down what Apache Kafka's transaction coordinator says on a hundred histories: `python tools/note_transactions.py`.

Writes `tests/fixtures/kafka/transactions.json.xz`, by which the unit tests judge ours without a JVM.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess
from tests.support.noted_oracle import NOTES, SEEDS, NotingOracle, write_notes
from tests.support.transaction_histories import play


def main() -> None:
    conversations = {}
    with JavaProcess(ApacheKafka.installed(), REPOSITORY / "tests" / "compat" / "TransactionOracle.java") as oracle:
        for seed in SEEDS:
            noting = NotingOracle(oracle)
            play(noting, seed)
            conversations[seed] = noting.conversation
    write_notes(conversations)
    print(f"{sum(map(len, conversations.values()))} answers in {NOTES}")


if __name__ == "__main__":
    main()
