"""Apache Kafka and Tidelog say the same to members of a classic group, good ones and bad ones.

Each conversation is held with both over raw sockets, in a group of its own. Member ids are replaced by the order in which they
were first seen; everything else that a member is told has to be equal.
"""

from __future__ import annotations

import pytest

from tests.support.apache_kafka import wait_until
from tests.support.classic_groups import subscription
from tests.support.group_talk.classic import ORDERS
from tests.support.group_talk.sides import Conversation, Sides, assert_both_answer_alike
from tests.support.group_talk.talk import Talk

pytestmark = pytest.mark.compat

BOTH = {"range": subscription("orders"), "roundrobin": subscription("orders")}
ROUND_ROBIN = {"roundrobin": subscription("orders")}


def one_member(talk: Talk, version: int) -> None:
    member_id = talk.stable_member(version)
    talk.heartbeat(member_id, 1)
    talk.describe()
    talk.leave((member_id, None))
    talk.describe()
    talk.heartbeat(member_id, 2)


def heartbeats(talk: Talk, version: int) -> None:
    talk.heartbeat("nobody", 1, version=version)
    member_id = talk.stable_member()
    for who, generation_id in ((member_id, 1), (member_id, 0), (member_id, 2), (member_id, -1), ("nobody", 1), ("", 1)):
        talk.heartbeat(who, generation_id, version=version)
    talk.heartbeat(member_id, 1, version=version, group="")
    if version >= 3:
        talk.heartbeat(member_id, 1, version=version, instance="i")


def syncs(talk: Talk, version: int) -> None:
    talk.sync("nobody", 1, version=version)
    member_id = talk.stable_member()
    for who, generation_id in ((member_id, 1), (member_id, 0), (member_id, 2), ("nobody", 1), ("", -1)):
        talk.sync(who, generation_id, version=version)
    talk.sync(member_id, 1, {member_id: b"other"}, version=version)
    talk.sync(member_id, 1, version=version, group="")
    if version >= 3:
        talk.sync(member_id, 1, version=version, instance="i")
    if version >= 5:
        talk.sync(member_id, 1, protocol_type=None)
        talk.sync(member_id, 1, protocol_name=None)
        talk.sync(member_id, 1, protocol_type="connect", protocol_name="range")
        talk.sync(member_id, 1, protocol_type="consumer", protocol_name="roundrobin")
        talk.sync(member_id, 1, protocol_type="consumer", protocol_name="range")


def leaves(talk: Talk, version: int) -> None:
    talk.leave(("nobody", None), version=version)
    member_id = talk.stable_member()
    talk.leave(("nobody", None), version=version)
    talk.leave((member_id, None), version=version, group="")
    talk.leave((member_id, None), version=version)
    talk.leave((member_id, None), version=version)
    talk.describe()


def batch_leaves(talk: Talk, version: int) -> None:
    member_id = talk.stable_member(instance="i1")
    pending = talk.join()
    talk.leave(("nobody", None), ("", None), ("", "i2"), ("nobody", "i1"), (pending, None), ("", "i1"), version=version)
    talk.heartbeat(member_id, 1)
    talk.leave(version=version)
    talk.describe()


def joins_of_strangers(talk: Talk, version: int) -> None:
    talk.join("nobody", version=version)
    member_id = talk.stable_member(version)
    talk.join("nobody", version=version)
    talk.join(member_id, version=version, session_ms=5_999)
    talk.join(version=version, session_ms=1_800_001)
    talk.join(version=version, group="")
    talk.heartbeat(member_id, 1)


def protocols_that_do_not_fit(talk: Talk, version: int) -> None:
    talk.join(version=version, protocol_type="")
    talk.join(version=version, protocols={})
    member_id = talk.stable_member(version)
    talk.join(version=version, protocols=ROUND_ROBIN)
    talk.join(version=version, protocols={})
    talk.join(version=version, protocol_type="connect")
    talk.join(member_id, version=version, protocols=ROUND_ROBIN)
    talk.describe()


def a_second_member(talk: Talk, version: int) -> None:
    first = talk.stable_member(version, protocols=BOTH)
    second = talk.join(version=version, protocols=ORDERS) if version >= 4 else ""
    joining = talk.ask_join(second, version=version, protocols=ORDERS)
    wait_until(lambda: talk.ask_heartbeat(first, 1) == "REBALANCE_IN_PROGRESS", "the group rebalances")
    talk.sync(first, 1)
    leads = talk.ask_join(first, version=version, protocols=BOTH)
    talk.heard(leads)
    second = talk.heard(joining)
    talk.sync(first, 2, {first: b"a", second: b"b"})
    talk.sync(second, 2)
    talk.describe()
    talk.join(second, version=version, protocols=ORDERS)
    talk.leave((first, None))
    talk.heartbeat(second, 2)
    talk.join(second, version=version, protocols=ORDERS)


def between_join_and_sync(talk: Talk, version: int) -> None:
    member_id = talk.member(version=version)
    talk.heartbeat(member_id, 1)
    talk.describe()
    talk.join(member_id, version=version)
    talk.join(member_id, version=version, protocols=BOTH)
    talk.sync(member_id, 1, {member_id: b"late"})
    talk.sync(member_id, 2, {"nobody": b"x"})
    talk.sync(member_id, 2)


def a_leader_joins_again(talk: Talk, version: int) -> None:
    member_id = talk.stable_member(version)
    talk.join(member_id, version=version)
    talk.describe()
    talk.heartbeat(member_id, 1)
    talk.heartbeat(member_id, 2)


def a_static_leader_comes_back(talk: Talk, version: int) -> None:
    before = talk.stable_member(version, instance="i1")
    after = talk.join(version=version, instance="i1")
    talk.heartbeat(before, 1, instance="i1")
    talk.heartbeat(before, 1)
    talk.sync(before, 1, instance="i1")
    talk.join(before, version=version, instance="i1")
    talk.leave((before, "i1"))
    talk.sync(after, 1, instance="i1")
    talk.describe()
    talk.join(version=version, instance="i1", protocols=BOTH)
    talk.describe()


def static_names(talk: Talk, version: int) -> None:
    member_id = talk.stable_member(version, instance="i1")
    talk.join(member_id, version=version, instance="i2")
    talk.join("nobody", version=version, instance="i1")
    talk.heartbeat(member_id, 1, instance="i2")
    pending = talk.join(version=version)
    talk.join(pending, version=version, instance="i3")


def an_id_that_was_given_out(talk: Talk, version: int) -> None:
    pending = talk.join(version=version)
    talk.describe()
    talk.heartbeat(pending, 0)
    talk.sync(pending, 0)
    talk.leave((pending, None))
    talk.join(pending, version=version)


CONVERSATIONS: list[tuple[Conversation, int]] = [
    *((one_member, version) for version in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)),
    *((heartbeats, version) for version in (0, 2, 3, 4)),
    *((syncs, version) for version in (0, 3, 4, 5)),
    *((leaves, version) for version in (0, 2, 3, 4, 5)),
    *((batch_leaves, version) for version in (3, 5)),
    *((joins_of_strangers, version) for version in (0, 3, 4, 9)),
    *((protocols_that_do_not_fit, version) for version in (2, 6, 9)),
    *((a_second_member, version) for version in (3, 5, 9)),
    *((between_join_and_sync, version) for version in (4, 9)),
    *((a_leader_joins_again, version) for version in (3, 9)),
    *((a_static_leader_comes_back, version) for version in (5, 8, 9)),
    *((static_names, version) for version in (5, 9)),
    *((an_id_that_was_given_out, version) for version in (4, 9)),
]


@pytest.mark.parametrize(
    ("conversation", "version"), CONVERSATIONS, ids=[f"{talk.__name__}-v{version}" for talk, version in CONVERSATIONS]
)
def test_both_answer_alike(conversation: Conversation, version: int, group_sides: Sides) -> None:
    assert_both_answer_alike(conversation, version, group_sides)
