"""The states of a transactional id, and the one gate between them.

    from \\ to         Empty  Ongoing  PrepareCommit  PrepareAbort  CompleteCommit  CompleteAbort  Dead
    Empty             init   add      -              end (TV2)     -               -              expiry
    Ongoing           -      add      end            end, fence    -               -              -
    PrepareCommit     -      -        -              -             markers         -              -
    PrepareAbort      -      -        -              -             -               markers        -
    CompleteCommit    init   add      -              end (TV2)     -               -              expiry
    CompleteAbort     init   add      -              end (TV2)     -               -              expiry

    init      InitProducerId gives the id a new epoch
    add       AddPartitionsToTxn, AddOffsetsToTxn, and Produce and TxnOffsetCommit of transaction version 2; also InitProducerId
              that keeps a prepared transaction, which stays Ongoing
    end       EndTxn; with transaction version 2 an abort is also taken where nothing was added
    fence     InitProducerId or the time-out ends what a producer has left open, with an epoch that it does not have
    markers   every partition has its marker
    expiry    nobody has used the id for `transactional.id.expiration.ms`: a tombstone

Dead and PrepareEpochFence are states of Kafka's memory: no record holds them. Here a fence goes from Ongoing to PrepareAbort in
one step, and an id that is Dead is one that is gone.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """Kafka's numbers, as they stand in the log, and Kafka's names, as DescribeTransactions shows them."""

    # Members rather than properties, since every request asks for them; set below.
    is_prepared: bool
    """Whether the outcome is decided and markers have to be written."""
    is_at_rest: bool
    """Whether no transaction is open: a new one may begin, or the id expire."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def display_name(self) -> str:
        """`PrepareCommit` for PREPARE_COMMIT."""
        return _NAMES[self]


_NAMES: Final = {state: state.name.title().replace("_", "") for state in TransactionState}
_PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_AT_REST: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

for _state in TransactionState:
    _state.is_prepared = _state in _PREPARED
    _state.is_at_rest = _state in _AT_REST

_BEFORE: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _AT_REST,
    TransactionState.ONGOING: _AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _AT_REST | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _AT_REST,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset(),
}

# The same by the number of the state after, a bit for each state before.
_BEFORE_BITS: Final = tuple(sum(1 << before for before in _BEFORE[after]) for after in TransactionState)

RECORDED_STATES: Final = _AT_REST | _PREPARED | {TransactionState.ONGOING}
"""What a record may say."""
STATES_BY_NAME: Final = {name: state for state, name in _NAMES.items()}


class ImpossibleTransitionError(Exception):
    """A decision would take a transaction where it cannot go. That is a bug: there is no handler for it."""


def check_transition(before: TransactionState, after: TransactionState) -> None:
    """The one place where a state changes."""
    if not _BEFORE_BITS[after] >> before & 1:
        raise ImpossibleTransitionError(f"a transaction cannot go from {before.display_name} to {after.display_name}")
