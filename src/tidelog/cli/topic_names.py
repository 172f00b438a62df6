"""Names of topics and of their settings as they are typed.

Before a cluster is asked, they are told apart from patterns and from what no topic can be called. Where the cluster does not know
them, the nearest that it knows are proposed.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.cli.admin_session import QuestionError, RefusalError
from tidelog.client.errors import RefusedError, UnknownTopicError
from tidelog.controller.topic_names import NAME_LENGTH_MAX, name_problem
from tidelog.model.config import did_you_mean
from tidelog.model.errors import ErrorCode
from tidelog.model.topic_config import TOPIC_KEYS

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


def with_nearest_topic(error: UnknownTopicError, there: Iterable[str]) -> RefusalError:
    """The same sentence, with the topic that may have been meant."""
    return RefusalError(f"{error}{did_you_mean(error.topic, list(there))}")


def with_nearest_settings(error: RefusedError, settings: Iterable[str]) -> RefusedError | RefusalError:
    """What a cluster says of a topic's settings, with those that may have been meant where it does not know what was typed."""
    if error.code is not ErrorCode.INVALID_CONFIG:
        return error
    # The cluster names one that it does not know, in words of its own.
    words = str(error).split()
    unknown = [name for name in settings if name not in TOPIC_KEYS and name in words]
    advice = did_you_mean(unknown[0], TOPIC_KEYS) if unknown else ""
    return RefusalError(f"{error}{advice}") if advice else error
