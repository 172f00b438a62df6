"""Whatever goes wrong between clients, the coordinator and partitions: a transaction is whole or not there at all.

Every request may come late, twice and out of order, every answer be lost; records are committed late or never, markers come late
and twice; the coordinator begins again at any moment, clients die and come again, prepare what they leave to others, and are
fenced. At every moment:
- no transaction is half committed;
- nothing is committed that its own client has not asked to commit, whatever came late of an earlier or a later one;
- nothing that a client was told to be aborted is visible;
- no producer id and epoch is given out twice;
- a coordinator that begins again knows what the one before it knew.
In the end, once everything that is under way has arrived and time has passed, everything that a client was told to be committed
is there, and only what was prepared is open.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.transaction_world import World
from tests.support.transactions import TIMEOUT_MS

numbers = st.integers(0, 15)
# Mostly what brings a transaction on; now and then what does not.
steps = st.one_of(
    *[st.tuples(st.just("go well"), numbers, numbers)] * 6,
    *[st.tuples(st.just("act"), numbers, numbers)] * 4,
    *[st.tuples(st.just("deliver"), numbers, st.just(0))] * 4,
    *[st.tuples(st.just("commit"), numbers, st.just(0))] * 3,
    *[st.tuples(st.just("marker"), numbers, st.just(0))] * 2,
    st.tuples(st.just("deliver"), numbers, st.integers(1, 3)),
    st.tuples(st.just("marker"), numbers, st.just(1)),
    st.tuples(st.just("new client"), numbers, st.just(0)),
    st.tuples(st.just("prepare"), numbers, st.just(0)),
    st.tuples(st.just("lose records"), st.just(0), st.just(0)),
    st.tuples(st.just("crash"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("wait"), numbers, st.just(0)),
)


def do(world: World, step: tuple[str, int, int]) -> None:
    what, which, how = step
    match what:
        case "go well":
            world.go_well(world.clients[which % len(world.clients)], how)
        case "act":
            world.clients[which % len(world.clients)].step(how)
        case "deliver":
            world.deliver(which, is_repeated=bool(how & 1), is_answer_lost=bool(how & 2))
        case "commit":
            world.commit(1 + which % 3)
        case "marker":
            world.write_marker(which, is_repeated=bool(how))
        case "new client":
            world.new_client(is_two_phase=bool(which & 1), keeps=bool(which & 2))
        case "prepare":
            world.clients[which % len(world.clients)].prepare()
        case "lose records":
            world.lose_records()
        case "crash":
            world.crash(which)
        case _:
            world.advance(which * 10_000)


@pytest.mark.parametrize("first_epoch", [0, 32_763])
@given(history=st.lists(steps, min_size=20, max_size=120))
@settings(deadline=None)
def test_a_transaction_is_whole_or_not_there(first_epoch: int, history: list[tuple[str, int, int]]) -> None:
    world = World(first_epoch)
    world.new_client(is_two_phase=False, keeps=False)

    for step in history:
        do(world, step)
        world.check()

    world.settle()
    world.crash(0)
    world.settle()
    world.advance(2 * TIMEOUT_MS)
    world.settle()
    world.check_end()
