"""What falls due when: in order, once, and cheaply where deadlines only ever move back."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tidelog.coordination.deadlines import Action, Deadlines
from tidelog.coordination.decision import Decision


def action(name: str, done: list[str]) -> Action:
    def act(_now_ms: int) -> Decision[None] | None:
        done.append(name)
        return None

    return act


def run_until(deadlines: Deadlines, now_ms: int) -> None:
    while (due := deadlines.take_due(now_ms)) is not None:
        due[1](now_ms)


def test_falls_due_in_order_and_once() -> None:
    deadlines, done = Deadlines(), list[str]()
    deadlines.set("b", 20, action("b", done))
    deadlines.set("a", 10, action("a", done))
    assert deadlines.next_ms == 10
    run_until(deadlines, 9)
    assert done == []
    run_until(deadlines, 25)
    assert done == ["a", "b"]
    assert len(deadlines) == 0


def test_says_that_nothing_is_set() -> None:
    assert Deadlines().next_ms is None


def test_moves_to_a_later_time_only() -> None:
    deadlines, done = Deadlines(), list[str]()
    assert not deadlines.move("a", 10)
    deadlines.set("a", 20, action("a", done))
    before = deadlines.number

    assert deadlines.move("a", 30)
    assert not deadlines.move("a", 10)

    assert deadlines.number == before
    run_until(deadlines, 29)
    assert done == []
    run_until(deadlines, 30)
    assert done == ["a"]


def test_is_moved_back_and_forth_and_cancelled() -> None:
    deadlines, done = Deadlines(), list[str]()
    deadlines.set("a", 10, action("early", done))
    deadlines.set("a", 30, action("late", done))
    run_until(deadlines, 20)
    assert done == []
    deadlines.set("a", 22, action("earlier again", done))
    run_until(deadlines, 22)
    assert done == ["earlier again"]
    deadlines.set("a", 40, action("never", done))
    assert deadlines.cancel("a")
    assert not deadlines.cancel("a")
    run_until(deadlines, 100)
    assert done == ["earlier again"]


def test_does_not_grow_with_the_number_of_changes() -> None:
    deadlines, done = Deadlines(), list[str]()
    for at_ms in range(100_000, 0, -1):
        deadlines.set("moves forward each time", at_ms, action("x", done))
    assert len(deadlines._heap) < 3_000
    run_until(deadlines, 1)
    assert done == ["x"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 50)), st.integers(0, 3)), max_size=60
    )
)
def test_is_a_table_of_times(steps: list[tuple[str, int | None, int]]) -> None:
    """Against the plain model: a dict of times that is searched."""
    deadlines, model, now_ms = Deadlines(), dict[str, int](), 0
    done: list[str] = []
    for key, at_ms, passes_ms in steps:
        if at_ms is None:
            assert deadlines.cancel(key) == (model.pop(key, None) is not None)
        else:
            deadlines.set(key, at_ms, action(key, done))
            model[key] = at_ms
        next_ms = deadlines.next_ms
        assert (next_ms is None) == (not model)
        assert next_ms is None or next_ms <= min(model.values())
        now_ms += passes_ms
        done.clear()
        run_until(deadlines, now_ms)
        due = {each for each, time_ms in model.items() if time_ms <= now_ms}
        assert set(done) == due
        assert len(done) == len(due)
        model = {each: time_ms for each, time_ms in model.items() if each not in due}
