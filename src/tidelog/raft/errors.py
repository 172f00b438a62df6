"""What can go wrong in consensus, apart from what peers are told by an error code.

RaftError
  QuorumStateError       the file `quorum-state` holds something that neither this program nor Apache Kafka writes
BugError
  InvariantError         the machine found itself, or the log it was given, in a state that must not exist: stop the node
"""

from __future__ import annotations

from tidelog.model.bugs import BugError


class RaftError(Exception):
    """Base of what this package raises."""


class QuorumStateError(RaftError):
    """The text is not a quorum-state file. The message is one plain sentence."""


class InvariantError(BugError):
    """Going on would risk committed records. There is no handler for this: the node stops."""


def invariant(holds: bool, sentence: str) -> None:
    """Stops the node when `holds` is false, also under `python -O`."""
    if not holds:
        raise InvariantError(sentence)
