"""The topics that belong to Kafka itself: clients read them, brokers write them."""

from __future__ import annotations

from tidelog.model.ids import TopicName

CONSUMER_OFFSETS = TopicName("__consumer_offsets")
TRANSACTION_STATE = TopicName("__transaction_state")
SHARE_GROUP_STATE = TopicName("__share_group_state")

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
