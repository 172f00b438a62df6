"""The gate between the states of a transactional id."""

from __future__ import annotations

import itertools

import pytest

from tidelog.coordination.transaction.states import (
    STATES_BY_NAME,
    ImpossibleTransitionError,
    TransactionState,
    check_transition,
)

S = TransactionState

AT_REST = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
ALLOWED = {
    *itertools.product(AT_REST, (S.EMPTY, S.ONGOING, S.PREPARE_ABORT, S.DEAD)),
    (S.ONGOING, S.ONGOING),
    (S.ONGOING, S.PREPARE_COMMIT),
    (S.ONGOING, S.PREPARE_ABORT),
    (S.PREPARE_COMMIT, S.COMPLETE_COMMIT),
    (S.PREPARE_ABORT, S.COMPLETE_ABORT),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(S, S)))
def test_the_gate_lets_through_what_the_table_has(before: TransactionState, after: TransactionState) -> None:
    if (before, after) in ALLOWED:
        check_transition(before, after)
    else:
        with pytest.raises(ImpossibleTransitionError, match=f"from {before.display_name} to {after.display_name}"):
            check_transition(before, after)


def test_numbers_and_names_are_kafkas() -> None:
    names = [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]

    assert [state.display_name for state in S] == names
    assert [int(state) for state in S] == list(range(8))
    assert STATES_BY_NAME["PrepareAbort"] is S.PREPARE_ABORT
