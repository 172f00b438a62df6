"""Which topics are read: `subscribe`, `subscribePattern` or `assign`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import OptionError
from tidelog.spark.source.partition_offsets import TopicIds, parse_partitions


@dataclass(frozen=True, slots=True)
class Subscribed:
    """All partitions of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """All partitions of the topics whose whole name matches, those included that come later."""

    pattern: re.Pattern[str]

    def has(self, topic: str, *, is_internal: bool) -> bool:
        """Internal topics only where the pattern has their name in it: whoever writes `.*` does not mean those."""
        return self.pattern.fullmatch(topic) is not None and (not is_internal or topic in self.pattern.pattern)


@dataclass(frozen=True, slots=True)
class Assigned:
    """These partitions."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ChosenPartitions:
    """What was chosen, as it is at some moment."""

    partitions: list[TopicPartition]
    topic_ids: TopicIds
    """Which topics these are: names can be given to others."""


ChosenTopics = Subscribed | Matching | Assigned

NAMES = ("subscribe", "subscribePattern", "assign")


def names_both_sides(options: Mapping[str, str]) -> bool:
    """Whether they name a topic to write and topics to read."""
    names = {name.lower() for name in options}
    return "topic" in names and not names.isdisjoint(name.lower() for name in NAMES)


def chosen_topics(given: Mapping[str, str]) -> ChosenTopics | None:
    """From options by their lower-case names; None where none of the three is there. OptionError for two of them."""
    present = [name for name in NAMES if name.lower() in given]
    if len(present) > 1:
        raise OptionError(f"{present[0]} and {present[1]} are both given: topics are chosen in one way")
    if not present:
        return None
    text = given[present[0].lower()].strip()
    match present[0]:
        case "subscribe":
            topics = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
            if not topics:
                raise OptionError(f"subscribe is {text!r}: expected names of topics, as in orders,payments")
            return Subscribed(topics)
        case "subscribePattern":
            if not text:
                raise OptionError("subscribePattern is empty: expected a regular expression, as in orders[.].*")
            try:
                return Matching(re.compile(text))
            except re.error as error:
                raise OptionError(f"subscribePattern {text!r} is no regular expression: {error}") from None
        case _:
            return Assigned(tuple(parse_partitions("assign", text)))
