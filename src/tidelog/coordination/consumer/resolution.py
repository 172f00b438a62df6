"""When the regular expressions of a group are resolved to topics, and what comes of it.

A heartbeat does not wait for that: each expression is matched with every topic of the cluster. The heartbeat that finds it due
has it done right after, as a decision of its own, and members learn of the result with their next heartbeats. A new expression
is checked at once, so that its member is told where it is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.coordination.consumer.context import GroupContext
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.consumer.records import ResolvedRegex, group_record, regex_record
from tidelog.coordination.consumer.regular_expressions import matching_topics
from tidelog.coordination.decision import Decision
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.wire.internal_records import CoordinatorRecord

# New topics and new members may come in bursts; each refresh looks at every topic of the cluster.
REGEX_REFRESH_MIN_INTERVAL_MS = 10_000


def resolve_if_due(
    context: GroupContext,
    group: ConsumerGroup,
    regexes: Sequence[str],
    may_describe: Callable[[TopicName], bool],
    now_ms: int,
    *,
    has_new: bool,
) -> None:
    """Have the expressions resolved next, if one of them is new, topics have come, or the last time is too long ago.

    Only to topics that the member who brings it about may know of.
    """
    key = ("regex", group.group_id)
    if not regexes or key in context.deadlines:
        return
    last_ms = min((found.timestamp_ms for found in group.resolved_regexes.values()), default=None)
    if last_ms is not None:
        if now_ms <= last_ms + REGEX_REFRESH_MIN_INTERVAL_MS:
            return
        is_old = now_ms > last_ms + context.settings.consumer_regex_refresh_interval_ms
        is_whole = len(regexes) == len(group.resolved_regexes) and group.regexes_version == context.topics_version
        if is_whole and not is_old and not has_new:
            return
    group_id = group.group_id
    context.deadlines.set(key, now_ms, lambda at_ms: _resolve(context, group_id, regexes, may_describe, at_ms))


def _resolve(
    context: GroupContext,
    group_id: str,
    regexes: Sequence[str],
    may_describe: Callable[[TopicName], bool],
    now_ms: int,
) -> Decision[None] | None:
    group = context.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return None
    records: list[CoordinatorRecord] = []
    resolved = dict(group.resolved_regexes)
    has_changed = False
    names = list(context.topics.topic_ids)
    for regex in regexes:
        if not group.regex_subscribers.get(regex):
            continue
        before = resolved.get(regex)
        topics = tuple(name for name in matching_topics(regex, names) if may_describe(name))
        resolved[regex] = found = ResolvedRegex(topics, context.topics.offset, now_ms)
        records.append(regex_record(group_id, regex, found))
        has_changed |= topics != (() if before is None else before.topics)
    if not records:
        return None
    metadata_hash = context.metadata_hash(group.subscribed_topics(resolved=resolved))
    if has_changed or metadata_hash != group.metadata_hash:
        records.append(group_record(group_id, group.epoch + 1, metadata_hash))
        group.looked_at_epoch = group.epoch + 1
    group.regexes_version = context.topics_version

    def settled(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            group.looked_at_epoch = group.regexes_version = None

    return Decision(None, tuple(records), settled=settled)
