"""Where new replicas go."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tidelog.controller.decision import Refusal
from tidelog.controller.image import BrokerRegistration, ClusterImage
from tidelog.controller.placement import UsableBroker, place_replicas, usable_brokers
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import BrokerEpoch, NodeId


def brokers(count: int, *, racks: int = 0, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [
        UsableBroker(NodeId(number), f"rack-{number % racks}" if racks else None, number in fenced)
        for number in range(count)
    ]


def placed(usable: list[UsableBroker], partitions: int, replicas: int, seed: int = 1) -> list[list[NodeId]]:
    found = place_replicas(usable, partitions=partitions, replicas=replicas, random=Random(seed))
    assert not isinstance(found, Refusal)
    return found


@pytest.mark.parametrize(
    ("fenced", "is_stopping", "is_usable"),
    [(False, False, True), (False, True, False), (True, False, True), (True, True, True)],
)
def test_a_broker_on_its_way_out_gets_no_replicas_and_one_that_has_stopped_does(
    *, fenced: bool, is_stopping: bool, is_usable: bool
) -> None:
    broker = BrokerRegistration(
        node_id=NodeId(1),
        epoch=BrokerEpoch(7),
        incarnation_id=b"i" * 16,
        endpoints=(),
        features=(),
        rack="a",
        fenced=fenced,
        in_controlled_shutdown=is_stopping,
        log_directories=(),
    )

    usable = usable_brokers(ClusterImage(brokers={broker.node_id: broker}))

    assert usable == ([UsableBroker(NodeId(1), "a", fenced)] if is_usable else [])


def test_nobody_gets_two_replicas_of_one_partition() -> None:
    for replicas in placed(brokers(5), 50, 4):
        assert len(set(replicas)) == len(replicas) == 4


@pytest.mark.parametrize(("count", "racks"), [(1, 0), (3, 0), (9, 3), (8, 2), (6, 3), (6, 6)])
def test_brokers_lead_and_follow_equally_often(count: int, racks: int) -> None:
    rounds = placed(brokers(count, racks=racks), count * 6, min(3, count))

    leaders = Counter(replicas[0] for replicas in rounds)
    replicas = Counter(node for each in rounds for node in each)

    assert set(leaders.values()) == {6}
    assert set(replicas.values()) == {6 * min(3, count)}


def test_racks_come_before_brokers() -> None:
    for replicas in placed(brokers(9, racks=3), 30, 3):
        assert len({node % 3 for node in replicas}) == 3


def test_a_small_rack_gets_its_share_however_full_it_is() -> None:
    usable = [*brokers(6, racks=1), UsableBroker(NodeId(9), "alone", False)]

    assert all(NodeId(9) in replicas for replicas in placed(usable, 20, 2))


def test_those_who_take_over_from_a_broker_are_not_all_the_same() -> None:
    rounds = placed(brokers(6), 600, 3)

    successors = Counter(replicas[1] for replicas in rounds if replicas[0] == 0)

    assert len(successors) == 5


def test_a_fenced_broker_never_leads_and_is_the_last_to_be_chosen() -> None:
    usable = brokers(4, fenced=(2,))

    for replicas in placed(usable, 40, 3):
        assert NodeId(2) not in replicas
    for replicas in placed(usable, 40, 4):
        assert replicas[0] != 2
        assert NodeId(2) in replicas


def test_a_rack_with_nobody_to_lead_follows() -> None:
    usable = brokers(6, racks=3, fenced=(0, 3))

    for replicas in placed(usable, 30, 3):
        assert replicas[0] % 3 != 0
        assert len({node % 3 for node in replicas}) == 3


def test_chance_decides_where_to_begin_and_nothing_else_does() -> None:
    usable = brokers(5)

    assert placed(usable, 10, 2, seed=3) == placed(list(reversed(usable)), 10, 2, seed=3)
    assert len({tuple(placed(usable, 1, 1, seed=seed)[0]) for seed in range(50)}) == 5


@pytest.mark.parametrize(
    ("usable", "replicas", "reason"),
    [
        ([], 1, "All brokers are currently fenced."),
        (brokers(2, fenced=(0, 1)), 1, "All brokers are currently fenced."),
        (
            brokers(2),
            3,
            (
                "The target replication factor of 3 cannot be reached because only 2 broker(s) are registered "
                "or some brokers have all their log directories cordoned."
            ),
        ),
    ],
)
def test_what_cannot_be_is_refused(usable: list[UsableBroker], replicas: int, reason: str) -> None:
    found = place_replicas(usable, partitions=1, replicas=replicas, random=Random(1))

    assert found == Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
