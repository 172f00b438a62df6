"""The topics that belong to Kafka itself, which brokers write; and those in which Tidelog's own programs keep what they do."""

from __future__ import annotations

from tidelog.model.ids import TopicName

CONSUMER_OFFSETS = TopicName("__consumer_offsets")
TRANSACTION_STATE = TopicName("__transaction_state")
SHARE_GROUP_STATE = TopicName("__share_group_state")

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

# Decisions of sinks and the audit of pipelines. To a broker they are topics like others, on any cluster.
BOOKKEEPING_PREFIX = "__tidelog_"


def is_bookkeeping(name: str) -> bool:
    """Whether a topic is one that nobody means who asks for all topics, though its cluster does not know that."""
    return name.startswith(BOOKKEEPING_PREFIX)
