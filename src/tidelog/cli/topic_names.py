"""Names of topics as they are typed: told apart from patterns and from what no topic can be called, before a cluster is asked."""

from __future__ import annotations

from tidelog.cli.admin_session import QuestionError
from tidelog.controller.topic_names import NAME_LENGTH_MAX, name_problem

# What shells and regular expressions mean something by; no name has any of them.
_PATTERN_CHARACTERS = frozenset("*?[]{}()|^$+\\")


def check_topic_name(name: str) -> None:
    """QuestionError for what is not a name."""
    if name_problem(name) is None:
        return
    if not _PATTERN_CHARACTERS.isdisjoint(name):
        raise QuestionError(
            f"{name!r} is a pattern, and topics are given by name here: `tidelog topics list` shows the names"
        )
    raise QuestionError(
        f"{name!r} is not the name of a topic: it is made of letters, digits, '.', '_' and '-', {NAME_LENGTH_MAX} at most"
    )
