"""What a transactional producer is at, and what it may do next.

    state \\ event     init          begin           prepare    commit      abort     ended     abortable   fatal
    UNINITIALIZED     INITIALIZING  -               -          -           -         -         -           FAILED
    INITIALIZING      -             -               -          -           -         READY*    -           FAILED
    READY             -             IN_TRANSACTION  -          -           -         -         -           FAILED
    IN_TRANSACTION    -             -               PREPARING  COMMITTING  ABORTING  -         MUST_ABORT  FAILED
    PREPARING         -             -               -          -           -         PREPARED  MUST_ABORT  FAILED
    PREPARED          -             -               -          COMMITTING  ABORTING  READY**   -           FAILED
    COMMITTING        -             -               -          -           -         READY     MUST_ABORT  FAILED
    ABORTING          -             -               -          -           -         READY     ABORTING    FAILED
    MUST_ABORT        -             -               -          -           ABORTING  -         MUST_ABORT  FAILED
    FAILED            -             -               -          -           -         -         -           FAILED

    * PREPARED where an earlier producer left a prepared transaction that is to be kept; UNINITIALIZED where the cluster said
      no, or nothing, so that it can be tried again.
    ** by another process, as the coordinator says.

A dash is a call that does not fit: TransactionStateError, and nothing has changed. `move` is the only way from one to another.
"""

from __future__ import annotations

from enum import Enum

from tidelog.client.errors import TransactionStateError


class State(Enum):
    """The value says to a person where the producer is, and what can be done there."""

    UNINITIALIZED = "call init_transactions first"
    INITIALIZING = "init_transactions is under way"
    READY = "no transaction is open: call begin_transaction first"
    IN_TRANSACTION = "a transaction is open: commit_transaction or abort_transaction ends it"
    PREPARING = "prepare_transaction is under way"
    PREPARED = "the transaction is prepared: complete_transaction, commit_transaction or abort_transaction ends it"
    COMMITTING = "the transaction is being committed: call commit_transaction again to learn how that went"
    ABORTING = "the transaction is being aborted: call abort_transaction again to learn how that went"
    MUST_ABORT = "the transaction has failed: call abort_transaction, then do its work again in a new one"
    FAILED = "the producer cannot go on: close it, and make another one"


_MOVES: dict[State, frozenset[State]] = {
    State.UNINITIALIZED: frozenset({State.INITIALIZING}),
    State.INITIALIZING: frozenset({State.READY, State.PREPARED, State.UNINITIALIZED}),
    State.READY: frozenset({State.IN_TRANSACTION}),
    State.IN_TRANSACTION: frozenset({State.PREPARING, State.COMMITTING, State.ABORTING, State.MUST_ABORT}),
    State.PREPARING: frozenset({State.PREPARED, State.MUST_ABORT}),
    State.PREPARED: frozenset({State.COMMITTING, State.ABORTING, State.READY}),
    State.COMMITTING: frozenset({State.READY, State.MUST_ABORT}),
    State.ABORTING: frozenset({State.READY}),
    State.MUST_ABORT: frozenset({State.ABORTING}),
    State.FAILED: frozenset(),
}

OPEN = frozenset({State.IN_TRANSACTION, State.PREPARING, State.COMMITTING})
"""States in which buffered records are sent as usual."""

UNFINISHED = frozenset({State.IN_TRANSACTION, State.MUST_ABORT})
"""Where a transaction is open that its own producer has to end. A prepared one may be for others."""


def may_move(state: State, to: State) -> bool:
    return to is State.FAILED or to in _MOVES[state]


def move(state: State, to: State, call: str) -> State:
    """The one place where the state changes: `to`, or TransactionStateError where `call` does not fit."""
    if not may_move(state, to):
        raise TransactionStateError(f"{call} is not possible now: {state.value}")
    return to
