"""Apache Kafka and Tidelog say the same about how far groups are, to members of either protocol and to others."""

from __future__ import annotations

import pytest

from tests.support.group_talk.sides import Conversation, Sides, assert_both_answer_alike
from tests.support.group_talk.talk import Talk

pytestmark = pytest.mark.compat

ONE = {("orders", 0): 5}


def simple_commits(talk: Talk, version: int) -> None:
    talk.commit(ONE, version=version)
    talk.commit({("orders", 1): 7, ("payments", 0): 0}, version=version, metadata=None)
    talk.commit({("orders", 2): -1}, version=version, metadata="")
    talk.fetch({"orders": [0, 1, 2], "payments": [0]})
    talk.list()


def commits_for_what_is_not_there(talk: Talk, version: int) -> None:
    talk.commit({("orders", 0): 1, ("orders", 3): 2, ("orders", -1): 2, ("nowhere", 0): 3}, version=version)
    talk.commit({("nowhere", 0): 3}, version=version)
    talk.commit({}, version=version)
    talk.commit(ONE, version=version, group="")
    talk.commit({("nowhere", 0): 3}, version=version, group="")
    talk.fetch(None)


def commits_of_strangers(talk: Talk, version: int) -> None:
    talk.commit(ONE, member_id="nobody", version=version)
    talk.commit(ONE, member_id="nobody", epoch=1, version=version)
    talk.commit(ONE, epoch=0, version=version)
    member_id = talk.stable_member()
    for who, epoch in (
        (member_id, 1),
        (member_id, 0),
        (member_id, 2),
        (member_id, -1),
        ("nobody", 1),
        ("", 1),
        ("", -1),
    ):
        talk.commit(ONE, member_id=who, epoch=epoch, version=version)
    if version >= 7:
        talk.commit(ONE, member_id=member_id, epoch=1, instance="i", version=version)
    talk.leave((member_id, None))
    talk.commit(ONE, member_id=member_id, epoch=1, version=version)
    talk.commit(ONE, version=version)


def commits_of_a_static_member(talk: Talk, version: int) -> None:
    before = talk.stable_member(instance="i")
    talk.commit(ONE, member_id=before, epoch=1, instance="i", version=version)
    after = talk.join(instance="i")
    talk.commit(ONE, member_id=before, epoch=1, instance="i", version=version)
    talk.commit(ONE, member_id=after, epoch=1, instance="i", version=version)
    talk.commit(ONE, member_id=before, epoch=1, version=version)


def commits_between_join_and_sync(talk: Talk, version: int) -> None:
    member_id = talk.join()
    talk.commit(ONE, member_id=member_id, epoch=0, version=version)
    talk.join(member_id)
    talk.commit(ONE, member_id=member_id, epoch=1, version=version)
    talk.commit(ONE, member_id=member_id, epoch=0, version=version)
    talk.sync(member_id, 1, {member_id: b"all"})
    talk.commit(ONE, member_id=member_id, epoch=1, version=version)


def commits_of_the_new_protocol(talk: Talk, version: int) -> None:
    epoch = talk.enter()
    for who, at in (("member", epoch), ("member", epoch - 1), ("member", epoch + 1), ("member", -1), ("nobody", epoch)):
        talk.commit(ONE, member_id=who, epoch=at, version=version)
    talk.commit(ONE, version=version)
    talk.commit(ONE, member_id="", epoch=epoch, version=version)
    talk.beat("member", -1)
    talk.commit(ONE, member_id="member", epoch=epoch, version=version)
    talk.commit(ONE, version=version)
    talk.fetch(None)


def long_metadata(talk: Talk, version: int) -> None:
    talk.commit({("orders", 0): 1, ("payments", 0): 1}, version=version, metadata="x" * 4096)
    talk.commit({("orders", 0): 2, ("payments", 0): 2}, version=version, metadata="x" * 4097)
    talk.commit({("orders", 0): 3}, version=version, metadata="ü" * 4096)
    talk.fetch(None)


def fetches(talk: Talk, version: int) -> None:
    talk.fetch({"orders": [0]}, version=version)
    talk.commit({("orders", 0): 5, ("payments", 0): 6})
    talk.fetch({"orders": [0, 1, 7], "nowhere": [0]}, version=version)
    talk.fetch({"orders": []}, version=version)
    talk.fetch({}, version=version)
    if version >= 2:
        talk.fetch(None, version=version)
        talk.fetch(None, groups=[f"{talk.group}-absent"], version=version)
    talk.fetch({"orders": [0]}, groups=[""], version=version)
    if version >= 7:
        talk.fetch({"orders": [0]}, version=version, stable=True)
    if version >= 8:
        talk.fetch({"orders": [0]}, groups=[talk.group, f"{talk.group}-absent"], version=version)
        talk.fetch(None, groups=[], version=version)


def fetches_of_members(talk: Talk, version: int) -> None:
    # Without an id but with an epoch, Kafka answers UNKNOWN_SERVER_ERROR, which is nothing to be equal to.
    talk.fetch({"orders": [0]}, member_id="nobody", epoch=1, version=version)
    epoch = talk.enter()
    talk.commit(ONE, member_id="member", epoch=epoch)
    for who, at in (
        ("member", epoch),
        ("member", epoch - 1),
        ("member", epoch + 1),
        ("member", -1),
        ("nobody", epoch),
        (None, -1),
        ("", -1),
        ("", 0),
    ):
        talk.fetch({"orders": [0]}, member_id=who, epoch=at, version=version)
        talk.fetch(None, member_id=who, epoch=at, version=version)


def fetches_of_classic_members(talk: Talk, version: int) -> None:
    member_id = talk.stable_member()
    for who, at in ((member_id, 1), (member_id, 0), ("nobody", 1), (None, -1)):
        talk.fetch({"orders": [0]}, member_id=who, epoch=at, version=version)


def deletes_of_offsets(talk: Talk, _version: int) -> None:
    talk.delete_offsets({"orders": [0]})
    talk.delete_offsets({"orders": [0]}, group="")
    talk.commit({("orders", 0): 5, ("orders", 1): 5, ("payments", 0): 6})
    talk.delete_offsets({"orders": [0, 2, 9], "nowhere": [0]})
    talk.fetch(None)
    talk.delete_offsets({})
    talk.delete_offsets({"nowhere": [0]})
    talk.delete_offsets({"nowhere": [0]}, group=f"{talk.group}-absent")
    talk.delete_offsets({"orders": [1], "payments": [0]})
    talk.fetch(None)
    talk.list()
    talk.describe()


def deletes_of_offsets_in_use(talk: Talk, _version: int) -> None:
    member_id = talk.stable_member()
    talk.commit({("orders", 0): 5, ("payments", 0): 6}, member_id=member_id, epoch=1)
    talk.delete_offsets({"orders": [0], "payments": [0]})
    talk.fetch(None)
    talk.leave((member_id, None))
    talk.delete_offsets({"orders": [0], "payments": [0]})
    talk.fetch(None)


def deletes_of_offsets_of_the_new_protocol(talk: Talk, _version: int) -> None:
    epoch = talk.enter()
    talk.commit({("orders", 0): 5, ("payments", 0): 6}, member_id="member", epoch=epoch)
    talk.delete_offsets({"orders": [0], "payments": [0]})
    talk.fetch(None)
    talk.beat("member", -1)
    talk.delete_offsets({"orders": [0], "payments": [0]})
    talk.fetch(None)


def deletes_of_offsets_of_other_kinds_of_members(talk: Talk, _version: int) -> None:
    member_id = talk.join(protocol_type="connect")
    talk.join(member_id, protocol_type="connect")
    talk.delete_offsets({"orders": [0]})
    talk.leave((member_id, None))
    talk.delete_offsets({"orders": [0]})
    talk.describe()


VERSIONED: list[tuple[Conversation, tuple[int, ...]]] = [
    (simple_commits, (2, 3, 4, 5, 6, 7, 8, 9, 10)),
    (commits_for_what_is_not_there, (2, 6, 9, 10)),
    (commits_of_strangers, (2, 6, 7, 8, 9, 10)),
    (commits_of_a_static_member, (7, 9, 10)),
    (commits_between_join_and_sync, (2, 8, 9)),
    (commits_of_the_new_protocol, (2, 8, 9, 10)),
    (long_metadata, (2, 9)),
    (fetches, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
    (fetches_of_members, (9, 10)),
    (fetches_of_classic_members, (9,)),
    (deletes_of_offsets, (0,)),
    (deletes_of_offsets_in_use, (0,)),
    (deletes_of_offsets_of_the_new_protocol, (0,)),
    (deletes_of_offsets_of_other_kinds_of_members, (0,)),
]
CASES = [(conversation, version) for conversation, versions in VERSIONED for version in versions]


@pytest.mark.parametrize(
    ("conversation", "version"), CASES, ids=[f"{conversation.__name__}-v{version}" for conversation, version in CASES]
)
def test_both_answer_alike(conversation: Conversation, version: int, group_sides: Sides) -> None:
    assert_both_answer_alike(conversation, version, group_sides)
