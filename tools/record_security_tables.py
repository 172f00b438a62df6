"""Records the tables under tests/fixtures/security: what Apache Kafka's classes and broker answer about security.

    .venv/bin/python tools/record_security_tables.py         a minute; needs java, and mvn once

The tables are Kafka's words, not ours: they change where questions are added, or with the version of Kafka.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tests.support.apache_kafka import ApacheKafka  # noqa: E402  (the repository's root is not on a tool's path)
from tests.support.security_tables import recorder, tables  # noqa: E402
from tests.support.security_tables.access_talk import answers  # noqa: E402
from tests.support.security_tables.sasl_conversations import conversations  # noqa: E402
from tests.support.security_tables.secured_node import KafkaAudit, secured_kafka  # noqa: E402


def main() -> int:
    kafka = ApacheKafka.installed()
    with recorder.authorizer_oracle(kafka) as oracle:
        tables.write("authorizer", recorder.authorizer(oracle))
    with recorder.text_oracle(kafka) as oracle:
        tables.write("subjects", recorder.subjects(oracle))
        tables.write("principal_rules", recorder.principal_rules(oracle))
        tables.write("jaas", recorder.jaas(oracle))
        tables.write("kerberos", recorder.kerberos(oracle))
        tables.write("addresses", recorder.addresses(oracle))
    with TemporaryDirectory() as folder, secured_kafka(kafka, Path(folder)) as (addresses, node):
        tables.write("sasl", conversations(addresses))
        tables.write("access", answers(addresses, KafkaAudit(node)))
    for path in sorted(tables.TABLES.glob("*.xz")):
        print(
            f"{path.relative_to(REPOSITORY)}: {len(tables.read(path.name.split('.')[0]))} rows, {path.stat().st_size:,} bytes"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
