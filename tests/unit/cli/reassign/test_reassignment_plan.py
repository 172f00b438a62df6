"""Plans for brokers that come and go: even, spread over racks, and with as few replicas on the move as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest

from tidelog.cli.reassign.reassignment_plan import Place, PlanError, PlannedBroker, Replicas, plan_replicas


def brokers(*nodes: int, racks: str = "") -> list[PlannedBroker]:
    return [PlannedBroker(node, racks[number] if racks else None) for number, node in enumerate(nodes)]


def placed(partitions: int, nodes: list[int], factor: int, topic: str = "orders") -> dict[Place, Replicas]:
    """In turn, as a cluster would."""
    return {
        (topic, index): tuple(nodes[(index + offset) % len(nodes)] for offset in range(factor))
        for index in range(partitions)
    }


def after(current: Mapping[Place, Replicas], plan: Mapping[Place, Replicas]) -> dict[Place, Replicas]:
    return {**current, **plan}


def loads(assignment: dict[Place, Replicas]) -> Counter[int]:
    return Counter(node for replicas in assignment.values() for node in replicas)


def leaders(assignment: dict[Place, Replicas]) -> Counter[int]:
    return Counter(replicas[0] for replicas in assignment.values())


def moved(current: Mapping[Place, Replicas], plan: Mapping[Place, Replicas]) -> int:
    return sum(len(set(replicas) - set(current[place])) for place, replicas in plan.items())


def test_an_even_cluster_stays_as_it_is() -> None:
    assert plan_replicas(placed(12, [1, 2, 3], 2), brokers(1, 2, 3)) == {}


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    current = placed(12, [1, 2, 3], 3)

    plan = plan_replicas(current, brokers(1, 2, 3, 4))

    assert loads(after(current, plan)) == {1: 9, 2: 9, 3: 9, 4: 9}
    assert leaders(after(current, plan)) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert moved(current, plan) == 9


def test_what_a_broker_that_goes_had_is_shared_by_the_others() -> None:
    current = placed(12, [1, 2, 3, 4], 2)

    plan = plan_replicas(current, brokers(1, 2, 4))

    assert loads(after(current, plan)) == {1: 8, 2: 8, 4: 8}
    assert leaders(after(current, plan)) == {1: 4, 2: 4, 4: 4}
    assert moved(current, plan) == 6


def test_one_comes_for_one_that_goes() -> None:
    current = placed(12, [1, 2, 3], 3)

    plan = plan_replicas(current, brokers(1, 2, 5))

    assert moved(current, plan) == 12
    assert all(set(replicas) == {1, 2, 5} for replicas in after(current, plan).values())
    assert leaders(after(current, plan)) == {1: 4, 2: 4, 5: 4}


def test_leaders_are_evened_without_moving_anything() -> None:
    current = {("orders", index): (1, 2, 3) for index in range(9)}

    plan = plan_replicas(current, brokers(1, 2, 3))

    assert moved(current, plan) == 0
    assert leaders(after(current, plan)) == {1: 3, 2: 3, 3: 3}
    assert len(plan) == 6


def test_every_topic_is_spread_not_only_their_sum() -> None:
    current = {**placed(6, [1], 1, "a"), **placed(6, [1], 1, "b")}

    plan = plan_replicas(current, brokers(1, 2))

    for topic in ("a", "b"):
        of_topic = {place: replicas for place, replicas in after(current, plan).items() if place[0] == topic}
        assert loads(of_topic) == {1: 3, 2: 3}


def test_more_replicas() -> None:
    current = placed(6, [1, 2, 3], 1)

    plan = plan_replicas(current, brokers(1, 2, 3), replication_factor=2)

    assert {len(replicas) for replicas in after(current, plan).values()} == {2}
    assert all(replicas[0] == current[place][0] for place, replicas in plan.items())
    assert loads(after(current, plan)) == {1: 4, 2: 4, 3: 4}
    assert moved(current, plan) == 6


def test_fewer_replicas() -> None:
    current = placed(6, [1, 2, 3], 3)

    plan = plan_replicas(current, brokers(1, 2, 3), replication_factor=2)

    assert moved(current, plan) == 0
    assert loads(after(current, plan)) == {1: 4, 2: 4, 3: 4}


def test_too_few_brokers() -> None:
    with pytest.raises(PlanError, match="orders-0 is to have 3 replicas, and there are 2 brokers"):
        plan_replicas(placed(1, [1, 2, 3], 3), brokers(1, 2))


def test_each_replica_is_in_a_rack_of_its_own() -> None:
    """What goes from rack a goes to rack a, although others have less."""
    current = {("orders", index): (1, 3, 5) for index in range(4)}

    plan = plan_replicas(current, brokers(2, 3, 4, 5, 6, racks="abbcc"))

    for replicas in after(current, plan).values():
        assert len({{2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}[node] for node in replicas}) == 3
    assert loads(after(current, plan)) == {2: 4, 3: 2, 4: 2, 5: 2, 6: 2}


def test_what_was_placed_without_regard_to_racks_is_repaired() -> None:
    current = {("orders", 0): (1, 2)}

    plan = plan_replicas(current, brokers(1, 2, 3, racks="aab"))

    assert plan == {("orders", 0): (1, 3)}


def test_a_way_round_where_two_have_nothing_to_exchange() -> None:
    """Broker 1 has most, broker 3 least, and every partition of 1 is on 3 already."""
    current = {
        ("a", 0): (1, 3),
        ("a", 1): (1, 3),
        ("b", 0): (1, 3),
        ("c", 0): (2,),
        ("c", 1): (2,),
        ("d", 0): (1, 2),
    }

    plan = plan_replicas(current, brokers(1, 2, 3))

    counts = loads(after(current, plan))
    assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("seed", range(60))
def test_any_cluster_becomes_even_by_as_few_moves_as_can_be(seed: int) -> None:
    random = Random(seed)
    before = random.sample(range(1, 10), random.randint(1, 7))
    now = random.sample(range(1, 10), random.randint(2, 9))
    factor = random.randint(1, min(len(before), len(now)))
    current = {
        (random.choice("abc") + str(index), index): tuple(random.sample(before, factor))
        for index in range(random.randint(1, 40))
    }

    plan = plan_replicas(current, brokers(*now))

    assert plan == plan_replicas(dict(reversed(current.items())), brokers(*reversed(now)))
    final = after(current, plan)
    assert all(len(set(replicas)) == factor and set(replicas) <= set(now) for replicas in final.values())
    counts, led = (Counter({**dict.fromkeys(now, 0), **each(final)}) for each in (loads, leaders))
    assert max(counts.values()) - min(counts.values()) <= 1
    assert max(led.values()) - min(led.values()) <= 1
    # Whoever goes gives up all, and whoever has more than its share gives up the rest: nobody else has to.
    kept = loads(current)
    share = -(-sum(kept.values()) // len(now))
    least = sum(count if node not in now else max(0, count - share) for node, count in kept.items())
    lacking = sum(max(0, share - 1 - kept[node]) for node in now)
    assert moved(current, plan) <= max(least, lacking) + len(now)


@pytest.mark.parametrize("seed", range(30))
def test_racks_are_kept_whatever_comes_and_goes(seed: int) -> None:
    random = Random(seed)
    racks = {node: random.choice("abc") for node in range(1, 10)}
    before = random.sample(range(1, 10), random.randint(3, 9))
    now = random.sample(range(1, 10), random.randint(3, 9))
    current = {("orders", index): tuple(random.sample(before, 3)) for index in range(random.randint(1, 30))}

    plan = plan_replicas(current, [PlannedBroker(node, racks[node]) for node in now])

    most = min(3, len({racks[node] for node in now}))
    for replicas in after(current, plan).values():
        assert len(set(replicas)) == 3
        assert len({racks[node] for node in replicas}) == most
