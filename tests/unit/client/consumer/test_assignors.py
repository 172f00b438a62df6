"""Assignors by example, and their bytes as Kafka's Java client writes them."""

from __future__ import annotations

import pytest

from tidelog.client.consumer.assignors import ASSIGNORS
from tidelog.client.consumer.assignors.assignor import LastAssignment, MemberSubscription
from tidelog.client.consumer.assignors.sticky import decode_last_assignment, encode_last_assignment
from tidelog.client.consumer.group_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.client.consumer.options import OffsetReset, parse_offset_reset
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, ConfigError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NO_RACKS = frozenset[str]()


def test_range_gives_runs_and_static_members_come_first() -> None:
    members = {
        "a": MemberSubscription(("t", "u")),
        "z": MemberSubscription(("t",), group_instance_id="0"),
    }

    made = ASSIGNORS["range"].assign({"t": [NO_RACKS] * 3, "u": [NO_RACKS]}, members)

    assert made == {"z": [("t", 0), ("t", 1)], "a": [("t", 2), ("u", 0)]}


def test_range_prefers_the_same_rack() -> None:
    racks = [frozenset("b"), frozenset("a")]
    members = {"m0": MemberSubscription(("t",), rack_id="a"), "m1": MemberSubscription(("t",), rack_id="b")}

    assert ASSIGNORS["range"].assign({"t": racks}, members) == {"m0": [("t", 1)], "m1": [("t", 0)]}


def test_round_robin_passes_over_who_is_not_subscribed() -> None:
    members = {"a": MemberSubscription(("t", "u")), "b": MemberSubscription(("u",))}

    made = ASSIGNORS["roundrobin"].assign({"t": [NO_RACKS] * 2, "u": [NO_RACKS] * 2}, members)

    assert made == {"a": [("t", 0), ("t", 1), ("u", 1)], "b": [("u", 0)]}


def test_of_two_claims_the_later_generation_is_believed() -> None:
    sticky = ASSIGNORS["sticky"]
    members = {
        "a": MemberSubscription(("t",), user_data=sticky.user_data(LastAssignment((T0,), 1))),
        "b": MemberSubscription(("t",), user_data=sticky.user_data(LastAssignment((T0,), 2))),
    }

    assert sticky.assign({"t": [NO_RACKS] * 2}, members) == {"a": [T1], "b": [T0]}


def test_user_data_of_the_java_client() -> None:
    written = bytes.fromhex("00000001 0001 74 00000002 00000000 00000001 00000005")
    last = LastAssignment((T0, T1), 5)

    assert encode_last_assignment(last) == written
    assert decode_last_assignment(written) == last
    assert decode_last_assignment(written[:-4]) == (last.partitions, -1), "before the generation was in it"
    assert ASSIGNORS["cooperative-sticky"].user_data(last) == bytes.fromhex("00000005")


@pytest.mark.parametrize("data", [b"", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x01\x00\x01\xff", bytes(3)])
def test_user_data_that_cannot_be_read_is_no_claim(data: bytes) -> None:
    assert decode_last_assignment(data) == LastAssignment()


def test_subscriptions_and_assignments_of_the_java_client() -> None:
    written = encode_subscription(ASSIGNORS["range"], ["t"], owned=[T0], last=LastAssignment((T0,), 5), rack_id="r")
    # Version 3; topics; no user data; owned partitions; generation; rack.
    assert written == bytes.fromhex(
        "0003 00000001 0001 74 ffffffff 00000001 0001 74 00000001 00000000 00000005 0001 72"
    )
    assert decode_subscription(written, "i") == MemberSubscription(("t",), None, (T0,), 5, "r", "i")
    assert decode_subscription(bytes.fromhex("0000 00000001 0001 74 ffffffff"), None).topics == ("t",)
    assert encode_assignment([T1, T0]) == bytes.fromhex("0003 00000001 0001 74 00000002 00000000 00000001 ffffffff")
    assert decode_assignment(encode_assignment([T0])) == (T0,)
    assert decode_assignment(b"") == ()
    with pytest.raises(ClientError, match="cannot be read"):
        decode_assignment(b"\x00\x00\x7f")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", OffsetReset(-2)),
        ("none", OffsetReset()),
        ("by_duration:PT1H", OffsetReset(None, 3_600_000)),
        ("by_duration:P1DT2M0.5S", OffsetReset(None, 86_520_500)),
    ],
)
def test_where_to_begin(text: str, expected: OffsetReset) -> None:
    assert parse_offset_reset("auto_offset_reset", text) == expected


@pytest.mark.parametrize("text", ["", "newest", "by_duration:", "by_duration:PT", "by_duration:-PT1H", 7])
def test_where_nobody_can_begin(text: object) -> None:
    with pytest.raises(ConfigError):
        parse_offset_reset("auto_offset_reset", text)
