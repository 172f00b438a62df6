from __future__ import annotations

import pytest

from tidelog.model.pending import Failed, Pending, when_all


def test_the_reader_gets_the_answer_when_it_comes() -> None:
    answer: Pending[int] = Pending()
    read: list[int] = []
    answer.then(read.append)
    assert read == []

    assert answer.complete(7)

    assert read == [7]
    assert answer.value == 7


def test_a_late_reader_gets_it_at_once() -> None:
    answer: Pending[int] = Pending()
    answer.complete(7)
    read: list[int] = []

    answer.then(read.append)

    assert read == [7]


def test_the_first_answer_stands() -> None:
    answer: Pending[str] = Pending()
    read: list[str] = []
    answer.then(read.append)
    answer.complete("done")

    assert not answer.complete("timed out")
    assert read == ["done"]


def test_there_is_one_reader() -> None:
    answer: Pending[int] = Pending()
    answer.then(lambda _: None)
    with pytest.raises(RuntimeError, match="one reader"):
        answer.then(lambda _: None)


def test_nothing_is_read_early() -> None:
    with pytest.raises(LookupError):
        _ = Pending[int]().value


def test_when_nothing_is_pending_the_result_is_there_at_once() -> None:
    done: Pending[int] = Pending()
    done.complete(2)

    outcomes: list[int | Pending[int]] = [1, done, 3]
    assert when_all(outcomes, sum) == 6


def test_the_last_outcome_completes_the_whole_in_order() -> None:
    first, second = Pending[int](), Pending[int]()
    whole = when_all([first, 5, second], list)
    assert isinstance(whole, Pending)

    second.complete(2)
    assert not whole.is_complete
    first.complete(1)

    assert whole.value == [1, 5, 2]


def quotient(values: list[int]) -> int:
    return values[0] // values[1]


def test_making_an_answer_that_fails_is_no_affair_of_whoever_completes_the_last_part() -> None:
    parts: list[int | Pending[int]] = [7, Pending()]
    inner = when_all(parts, quotient)
    divided: list[int | Pending[int]] = [inner, 1]
    outer = when_all(divided, quotient)
    assert isinstance(outer, Pending)

    assert isinstance(parts[1], Pending)
    parts[1].complete(0)

    failed: object = outer.value
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, ZeroDivisionError)
