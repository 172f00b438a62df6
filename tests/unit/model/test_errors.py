from __future__ import annotations

from tidelog.model.errors import ErrorCode


def test_the_table_has_no_gap() -> None:
    assert sorted(ErrorCode) == list(range(-1, 134))


def test_a_code_is_its_number_on_the_wire() -> None:
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert int(ErrorCode.NOT_COORDINATOR) == 16
    assert bytes([ErrorCode.NONE]) == b"\0"


def test_a_code_of_the_future_is_an_unknown_error() -> None:
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_retriable_is_what_clients_go_by() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert ErrorCode.FENCED_LEADER_EPOCH.retriable
    assert not ErrorCode.REBALANCE_IN_PROGRESS.retriable
    assert not ErrorCode.NONE.retriable


def test_every_message_is_one_sentence() -> None:
    for code in ErrorCode:
        assert code.message.endswith("."), code
        assert "\n" not in code.message
