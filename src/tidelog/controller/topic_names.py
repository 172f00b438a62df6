"""What a topic may be called."""

from __future__ import annotations

import re

from tidelog.model.ids import TopicName

NAME_LENGTH_MAX = 249
INTERNAL_TOPICS = frozenset(
    {TopicName("__consumer_offsets"), TopicName("__transaction_state"), TopicName("__share_group_state")}
)

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z", re.ASCII)


def name_problem(name: str) -> str | None:
    """What is wrong with a name, in one sentence, or None."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in {".", ".."}:
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL.match(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {reason}"


def collision_form(name: str) -> str | None:
    """What a name becomes in the name of a metric, where dots and underscores are the same; None where it has neither."""
    return name.replace(".", "_") if "." in name or "_" in name else None
