"""Configuration by the variables of Kafka's container images: `KAFKA_NUM_PARTITIONS=3` is `num.partitions=3`.

    KAFKA_A_B=1        a.b=1            KAFKA_A__B=1       a_b=1            KAFKA_A___B=1      a-b=1

The rule is that of Apache Kafka's image and of Confluent's. `python -m tidelog.broker.config.image_variables FILE` writes what
the environment says in the syntax of `server.properties`, as the scripts of a container do.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from tidelog.storage.properties import format_properties

PREFIX = "KAFKA_"

# What the images are told about themselves and the Java that runs in them.
NOT_KEYS = frozenset(
    {
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
        "KAFKA_ZOOKEEPER_CONNECT",
    }
)

_SEPARATORS = {1: ".", 2: "_", 3: "-"}


def key_of(variable: str) -> str | None:
    """The key that a variable sets; None for one that sets none."""
    if not variable.startswith(PREFIX) or variable in NOT_KEYS:
        return None
    text = variable.removeprefix(PREFIX).lower()
    return re.sub("_+", lambda run: _SEPARATORS.get(len(run[0]), run[0]), text)


def properties_of(environment: Mapping[str, str]) -> dict[str, str]:
    """What an environment configures, in the order of the keys."""
    found = {key: value for variable, value in environment.items() if (key := key_of(variable)) is not None}
    return dict(sorted(found.items()))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tidelog.broker.config.image_variables FILE")
    content = format_properties(properties_of(os.environ))
    # Passwords may be in it.
    descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
        file.write(content)


if __name__ == "__main__":
    main()
