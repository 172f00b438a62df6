"""Apache Kafka and Tidelog say the same to members of the consumer protocol (KIP-848), good ones and bad ones.

Most conversations are held where every change is assigned at once. Some are held where changes that come in a burst share one
assignment, as they do by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.apache_kafka import ApacheKafka, Node, wait_until
from tests.support.group_talk.notes import REBALANCE_MS
from tests.support.group_talk.sides import (
    Conversation,
    Sides,
    assert_both_answer_alike,
    both_sides,
    is_coordinated,
    prepare,
)
from tests.support.group_talk.talk import Talk
from tests.support.raw_client import RawClient
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat


def one_consumer(talk: Talk, version: int) -> None:
    epoch = talk.enter(version=version)
    talk.beat("member", epoch, version=version)
    talk.beat("member", epoch, owned={"orders": [0, 1, 2]}, version=version)
    # All that it has to say, and all but one thing: only the first asks for the whole assignment.
    talk.beat("member", epoch, rebalance_ms=REBALANCE_MS, topics=["orders"], owned={"orders": [0]}, version=version)
    talk.beat("member", epoch, rebalance_ms=REBALANCE_MS, topics=["orders"], version=version)
    talk.describe_consumer()
    talk.beat("member", -1, version=version)
    talk.beat("member", epoch, version=version)
    talk.describe_consumer()
    talk.list()


def beats_that_make_no_sense(talk: Talk, version: int) -> None:
    talk.beat("", 0, version=1, rebalance_ms=REBALANCE_MS, topics=["orders"], owned={})
    talk.beat("m", 0, group="", rebalance_ms=REBALANCE_MS, topics=["orders"], owned={}, version=version)
    talk.beat("m", 0, topics=["orders"], owned={}, version=version)
    talk.beat("m", 0, rebalance_ms=REBALANCE_MS, owned={}, version=version)
    talk.beat("m", 0, rebalance_ms=REBALANCE_MS, topics=["orders"], version=version)
    talk.beat("m", 0, rebalance_ms=REBALANCE_MS, topics=["orders"], owned={"orders": [0]}, version=version)
    talk.beat("m", 0, rebalance_ms=REBALANCE_MS, topics=["orders"], owned={}, assignor="nonsense", version=version)
    talk.beat("m", 0, rebalance_ms=REBALANCE_MS, topics=["orders"], owned={}, instance="", version=version)
    talk.beat("m", 0, rebalance_ms=REBALANCE_MS, topics=["orders"], owned={}, rack="", version=version)
    talk.beat("m", -2, instance="i", version=version)
    talk.beat("m", -3, version=version)
    talk.beat("m", -2, version=version)
    talk.beat("m", -1, version=version)
    talk.beat("m", 4, version=version)
    talk.beat("", 4, version=version)
    talk.beat("m", 0, rebalance_ms=0, topics=["orders"], owned={}, version=version)
    talk.describe_consumer()


def epochs_that_do_not_fit(talk: Talk, version: int) -> None:
    epoch = talk.enter(version=version)
    talk.beat("nobody", epoch, version=version)
    talk.beat("nobody", -1, version=version)
    talk.beat("member", epoch + 1, version=version)
    talk.beat("member", epoch - 1, version=version)
    talk.beat("member", epoch, version=version)
    talk.enter(version=version)
    talk.beat("member", epoch, version=version)
    talk.beat("member", -2, version=version)
    talk.beat("member", -1, version=version)


def subscriptions_that_change(talk: Talk, version: int) -> None:
    epoch = talk.enter(version=version)
    epoch = talk.beat("member", epoch, owned={"orders": [0, 1, 2]}, version=version).member_epoch
    answer = talk.beat("member", epoch, topics=["payments"], version=version)
    talk.beat("member", answer.member_epoch, owned={}, version=version)
    talk.describe_consumer()


def topics_that_are_not_there(talk: Talk, version: int) -> None:
    epoch = talk.enter(topics=["nowhere"], version=version)
    talk.beat("member", epoch, version=version)
    talk.describe_consumer()
    talk.beat("member", epoch, topics=[], version=version)
    talk.describe_consumer()


def expressions(talk: Talk, version: int) -> None:
    said: dict[str, Any] = {"rebalance_ms": REBALANCE_MS, "owned": {}, "version": version}
    talk.beat("bad", 0, regex="(", says_message=False, **said)
    talk.beat("bad", 0, regex="(?=x)", says_message=False, **said)
    talk.beat("none", 0, regex="", **said)
    talk.describe_consumer()
    talk.beat("none", -1, version=version)
    talk.describe_consumer()


def an_expression_that_is_resolved_later(talk: Talk, version: int) -> None:
    said: dict[str, Any] = {"rebalance_ms": REBALANCE_MS, "owned": {}, "version": version}
    epoch = talk.beat("member", 0, regex="orders|pay.*", **said).member_epoch
    # How soon after that it is resolved is each one's own.
    wait_until(lambda: talk.ask_group().group_epoch > epoch, "the expression is resolved")
    talk.describe_consumer()
    epoch = talk.beat("member", epoch, version=version).member_epoch
    talk.describe_consumer()
    talk.beat("another", 0, regex="orders|pay.*", **said)
    talk.describe_consumer()
    talk.beat("member", epoch, regex="", topics=["orders"], **said)
    talk.describe_consumer()


def static_consumers(talk: Talk, version: int) -> None:
    epoch = talk.enter("one", instance="i", version=version)
    talk.beat("one", epoch, instance="i", owned={"orders": [0, 1, 2]}, version=version)
    talk.enter("two", instance="i", version=version)
    talk.beat("one", -2, instance="i", version=version)
    talk.describe_consumer()
    talk.beat("one", epoch, instance="i", version=version)
    talk.beat("two", -2, instance="i", version=version)
    talk.beat("two", -1, instance="j", version=version)
    epoch = talk.enter("two", instance="i", version=version)
    talk.beat("one", epoch, instance="i", version=version)
    talk.beat("one", -1, instance="i", version=version)
    talk.beat("two", epoch, instance="i", owned={"orders": [0, 1, 2]}, version=version)
    talk.describe_consumer()
    talk.beat("two", -1, instance="i", version=version)
    talk.describe_consumer()


def two_consumers(talk: Talk, assignor: str) -> None:
    """The second takes its share as the first one gives it up, and the first takes it back."""
    first = talk.enter("one", assignor=assignor)
    talk.beat("one", first, owned={"orders": [0, 1, 2]})
    second = talk.enter("two", assignor=assignor)
    talk.describe_consumer()
    talk.beat("two", second)
    answer = talk.beat("one", first)
    kept = [list(each.partitions) for each in answer.assignment.topic_partitions] if answer.assignment else [[0, 1, 2]]
    talk.describe_consumer()
    talk.beat("two", second)
    # Not all of it is given up yet.
    talk.beat("one", answer.member_epoch, owned={"orders": [0, 1, 2]})
    answer = talk.beat("one", answer.member_epoch, owned={"orders": kept[0]})
    second = talk.beat("two", second).member_epoch
    talk.describe_consumer()
    talk.beat("two", second, owned={"orders": [index for index in range(3) if index not in kept[0]]})
    talk.describe_consumer()
    talk.beat("two", -1)
    answer = talk.beat("one", answer.member_epoch)
    talk.beat("one", answer.member_epoch, owned={"orders": [0, 1, 2]})
    talk.describe_consumer()


def two_consumers_with_uniform(talk: Talk, _version: int) -> None:
    two_consumers(talk, "uniform")


def two_consumers_with_range(talk: Talk, _version: int) -> None:
    two_consumers(talk, "range")


def different_assignors(talk: Talk, version: int) -> None:
    talk.enter("one", assignor="range", version=version)
    talk.enter("two", assignor="uniform", version=version)
    talk.enter("three", assignor="uniform", version=version)
    talk.describe_consumer()
    talk.enter("without a wish", version=version)
    talk.describe_consumer()
    talk.enter("four", assignor="uniform", topics=["payments"], version=version)
    talk.describe_consumer()


def different_subscriptions(talk: Talk, version: int) -> None:
    talk.enter("one", topics=["orders", "payments"], version=version)
    talk.enter("two", topics=["payments", "nowhere"], version=version)
    talk.describe_consumer()
    talk.beat("one", -1, version=version)
    talk.beat("two", 3, owned={}, version=version)
    talk.describe_consumer()


def lost_answers(talk: Talk, version: int) -> None:
    """A member that did not get an answer asks again with what it had before."""
    first = talk.enter("one", version=version)
    talk.enter("one", version=version)
    talk.beat("one", first, owned={"orders": [0, 1, 2]}, version=version)
    talk.enter("two", version=version)
    talk.beat("two", -1, version=version)
    talk.beat("one", first, version=version)
    talk.beat("one", first, owned={"orders": [0, 1, 2]}, version=version)
    talk.beat("one", first, owned={"orders": [0, 1]}, version=version)
    talk.describe_consumer()


VERSIONED: list[tuple[Conversation, tuple[int, ...]]] = [
    (one_consumer, (0, 1)),
    (beats_that_make_no_sense, (0, 1)),
    (epochs_that_do_not_fit, (0, 1)),
    (subscriptions_that_change, (1,)),
    (topics_that_are_not_there, (0, 1)),
    (expressions, (1,)),
    (an_expression_that_is_resolved_later, (1,)),
    (static_consumers, (0, 1)),
    (two_consumers_with_uniform, (1,)),
    (two_consumers_with_range, (1,)),
    (different_assignors, (0, 1)),
    (different_subscriptions, (0, 1)),
    (lost_answers, (0, 1)),
]
CASES = [(conversation, version) for conversation, versions in VERSIONED for version in versions]


@pytest.mark.parametrize(
    ("conversation", "version"), CASES, ids=[f"{conversation.__name__}-v{version}" for conversation, version in CASES]
)
def test_both_answer_alike(conversation: Conversation, version: int, group_sides: Sides) -> None:
    assert_both_answer_alike(conversation, version, group_sides)


# Changes in a burst


def topics_are_left(talk: Talk, version: int) -> None:
    epoch = talk.enter("A", topics=["orders", "payments"], version=version)
    talk.beat("A", epoch, topics=["payments"], version=version)
    talk.beat("A", epoch, owned={"orders": [0]}, version=version)
    talk.beat("A", epoch, owned={}, version=version)
    talk.describe_consumer()


def two_members_at_once(talk: Talk, version: int) -> None:
    epoch = talk.enter("A", version=version)
    talk.enter("B", version=version)
    for member_id, at in (("A", epoch), ("B", epoch), ("B", -1), ("A", epoch)):
        talk.beat(member_id, at, version=version)
    talk.describe_consumer()


def a_subscription_that_changes_at_once(talk: Talk, version: int) -> None:
    epoch = talk.enter("A", version=version)
    talk.beat("A", 0, version=version)
    talk.beat("A", epoch, topics=["payments"], owned={"orders": [0]}, version=version)
    talk.describe_consumer()


def an_assignor_that_changes_at_once(talk: Talk, version: int) -> None:
    epoch = talk.enter("A", assignor="range", version=version)
    talk.beat("A", epoch, assignor="uniform", version=version)
    talk.beat("A", epoch, version=version)
    talk.describe_consumer()


BURSTS: list[Conversation] = [
    topics_are_left,
    two_members_at_once,
    a_subscription_that_changes_at_once,
    an_assignor_that_changes_at_once,
]


@pytest.fixture(scope="module")
def patient_sides(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Where no conversation is so slow that it sees two assignments."""
    settings = {"group.consumer.assignment.interval.ms": "15000"}
    with both_sides(kafka, tmp_path_factory.mktemp("patient"), settings) as sides:
        yield sides


@pytest.mark.parametrize("conversation", BURSTS, ids=[each.__name__ for each in BURSTS])
def test_both_take_their_time_alike(conversation: Conversation, patient_sides: Sides) -> None:
    assert_both_answer_alike(conversation, 1, patient_sides)


# Both in turn


def test_a_group_goes_on_in_the_other_program(kafka: ApacheKafka, tmp_path: Path) -> None:
    """Its members stay in their epochs: each program finds the topics that the other one hashed unchanged."""
    theirs = Node(kafka, tmp_path)
    ours = TidelogNode(theirs)
    theirs.format()
    turns: list[Node | TidelogNode] = [ours, theirs, ours, theirs]
    for turn, node in enumerate(turns):
        with node.running():
            if turn == 0:
                prepare(node.bootstrap)
            if turn < 2:
                # Ours makes a group, then Kafka does; the others find them.
                with talk_with(node.bootstrap, f"made-{turn}") as talk:
                    assert talk.enter(instance="i") == 2
            for number in range(min(turn + 1, 2)):
                with talk_with(node.bootstrap, f"made-{number}") as talk:
                    answer = talk.beat("member", 2, instance="i")
                assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 2, None)


def talk_with(bootstrap: str, group: str) -> Talk:
    """A conversation with a coordinator that has just started, once it is ready."""
    with RawClient(bootstrap) as client:
        wait_until(lambda: is_coordinated(client, group), "the coordinator of the group serves")
    return Talk(bootstrap, group)
