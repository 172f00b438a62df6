"""Apache Kafka and Tidelog say the same about groups to those who look at them, look for them, and delete them."""

from __future__ import annotations

import pytest

from tests.support.group_talk.sides import Conversation, Sides, assert_both_answer_alike
from tests.support.group_talk.talk import Talk

pytestmark = pytest.mark.compat

ONE = {("orders", 0): 5}


def lists(talk: Talk, version: int) -> None:
    talk.commit(ONE, group=f"{talk.group}-simple")
    talk.list(version=version)
    member_id = talk.stable_member()
    talk.list(version=version)
    if version >= 4:
        for states in (["Stable"], ["stable"], ["Empty"], ["Stable", "Empty"], ["Nonsense"], [""]):
            talk.list(states, version=version)
    if version >= 5:
        for types in (["classic"], ["CLASSIC"], ["consumer"], ["classic", "consumer"], ["Nonsense"], ["share"]):
            talk.list(None, types, version=version)
        talk.list(["Stable"], ["classic"], version=version)
        talk.list(["Stable"], ["consumer"], version=version)
    talk.leave((member_id, None))
    talk.list(version=version)


def lists_of_the_new_protocol(talk: Talk, version: int) -> None:
    talk.enter()
    talk.list(version=version)
    if version >= 4:
        for states in (["Stable"], ["Assigning"], ["Reconciling"], ["Empty"]):
            talk.list(states, version=version)
    talk.beat("member", -1)
    talk.list(version=version)


def descriptions(talk: Talk, version: int) -> None:
    talk.describe(version=version)
    talk.describe("", version=version)
    talk.commit(ONE)
    talk.describe(version=version)
    member_id = talk.join()
    talk.describe(version=version)
    talk.join(member_id)
    talk.describe(version=version)
    talk.sync(member_id, 1, {member_id: b"all"})
    talk.describe(talk.group, f"{talk.group}-absent", version=version)
    talk.leave((member_id, None))
    talk.describe(version=version)


def descriptions_of_the_other_kind(talk: Talk, version: int) -> None:
    talk.enter()
    talk.describe(version=version)
    talk.beat("member", -1)
    talk.describe(version=version)


def consumer_descriptions(talk: Talk, version: int) -> None:
    talk.describe_consumer(version=version)
    talk.describe_consumer("", version=version)
    talk.commit(ONE)
    talk.describe_consumer(version=version)
    talk.enter(instance="i")
    talk.describe_consumer(talk.group, f"{talk.group}-absent", version=version)
    talk.beat("member", -1)
    talk.describe_consumer(version=version)


def deletions(talk: Talk, version: int) -> None:
    talk.delete(version=version)
    talk.delete("", version=version)
    talk.commit(ONE)
    talk.delete(talk.group, f"{talk.group}-absent", version=version)
    talk.fetch(None)
    talk.list()
    member_id = talk.stable_member()
    talk.commit(ONE, member_id=member_id, epoch=1)
    talk.delete(version=version)
    talk.leave((member_id, None))
    talk.delete(version=version)
    talk.list()
    talk.fetch(None)
    talk.heartbeat(member_id, 1)


def deletions_of_the_new_protocol(talk: Talk, version: int) -> None:
    talk.enter()
    talk.delete(version=version)
    talk.beat("member", -1)
    talk.delete(version=version)
    talk.delete(version=version)
    talk.describe_consumer()
    talk.list()


def finds(talk: Talk, version: int) -> None:
    talk.find(talk.group, version=version)
    talk.find("", version=version)
    if version >= 1:
        talk.find(talk.group, version=version, key_type=9)
    if version >= 4:
        talk.find(talk.group, f"{talk.group}-other", version=version)


VERSIONED: list[tuple[Conversation, tuple[int, ...]]] = [
    (lists, (0, 1, 2, 3, 4, 5)),
    (lists_of_the_new_protocol, (0, 3, 4, 5)),
    (descriptions, (0, 1, 2, 3, 4, 5, 6)),
    (descriptions_of_the_other_kind, (0, 5, 6)),
    (consumer_descriptions, (0, 1)),
    (deletions, (0, 1, 2)),
    (deletions_of_the_new_protocol, (2,)),
    (finds, (0, 1, 2, 3, 4, 5, 6)),
]
CASES = [(conversation, version) for conversation, versions in VERSIONED for version in versions]


@pytest.mark.parametrize(
    ("conversation", "version"), CASES, ids=[f"{conversation.__name__}-v{version}" for conversation, version in CASES]
)
def test_both_answer_alike(conversation: Conversation, version: int, group_sides: Sides) -> None:
    assert_both_answer_alike(conversation, version, group_sides)
