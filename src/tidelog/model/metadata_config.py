"""The configuration keys of what a broker tells of topics: whether asking makes them, and how much is told at once.

Names, defaults and ranges are those of Apache Kafka 4.3. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKeys, bool_key, int_key

AUTO_CREATE_TOPICS_ENABLE = bool_key(
    "auto.create.topics.enable",
    True,
    doc="Whether a topic is created when a client that allows it asks for one that does not exist.",
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = int_key(
    "max.request.partition.size.limit",
    2000,
    at_least=1,
    doc="How many partitions DescribeTopicPartitions tells of in one answer.",
)

METADATA_KEYS = ConfigKeys([AUTO_CREATE_TOPICS_ENABLE, MAX_REQUEST_PARTITION_SIZE_LIMIT])
