"""Why a group lags, as sentences that follow from what is known of it. Pure: facts in, sentences out.

| sentence | evidence |
|---|---|
| nobody reads | the group has no members, and lag |
| it rebalances | its state, and since when |
| nobody has the partition | members, and none with it |
| a transaction holds the readers | last stable offset below the end, committed up to it, and the producer that is open there |
| a member has stopped | it has the partition, records are there, and no commit has moved for `STUCK_S` |
| slower than what comes in | commits a second below records a second |
| one hot partition | most of the group's lag is in one of several |
"""

from __future__ import annotations

from tidelog.console.groups.group_facts import GroupFacts, PartitionFacts

# Automatic commits come every 5 seconds; samples every 2.
STUCK_S = 15.0
_HOT_PART = 0.6
# Below, whoever reads everything has simply not come to it yet.
_LAG_MIN = 1
_HOT_LAG_MIN = 100

_REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


def reasons_of_partition(facts: PartitionFacts) -> list[str]:
    if facts.committed is None:
        return ["The group has committed nothing for this partition."]
    if facts.end is None:
        return ["The partition has no leader, or is no more: its end is not known."]
    if not facts.lag:
        return []
    reasons = []
    if facts.open_producer is not None:
        reasons.append(_transaction(facts))
    if not facts.has_members:
        reasons.append("Nobody reads it: the group has no members.")
    elif facts.member is None and not facts.is_shared:
        reasons.append("No member has this partition, although the group has some.")
    elif facts.open_producer is None or (facts.lso is not None and facts.committed < facts.lso):
        reasons += _speed(facts)
    return reasons


def _transaction(facts: PartitionFacts) -> str:
    found = facts.open_producer
    assert found is not None
    name = "" if found.transactional_id is None else f" (transactional id {found.transactional_id})"
    return (
        f"A transaction of producer {found.state.producer_id}{name} is open since offset "
        f"{found.state.transaction_start_offset}: it holds the last stable offset at {facts.lso}, "
        f"and readers of committed records wait there."
    )


def _speed(facts: PartitionFacts) -> list[str]:
    who = "a member" if facts.member is None else f"member {facts.member.client_id} on {facts.member.host}"
    if facts.stuck_s is not None and facts.stuck_s >= STUCK_S:
        return [f"Stopped: {who} has committed nothing for {facts.stuck_s:.0f} s, and {facts.lag} records wait."]
    if facts.commit_rate is not None and facts.in_rate is not None and facts.in_rate > facts.commit_rate:
        return [
            f"Slower than what comes in: {facts.commit_rate:.0f} records/s are committed, {facts.in_rate:.0f} come in."
        ]
    if facts.commit_rate and facts.in_rate is not None and facts.lag:
        left_s = facts.lag / max(1e-9, facts.commit_rate - facts.in_rate)
        return [f"Catching up: {facts.commit_rate:.0f} records/s are committed, some {left_s:.0f} s are left."]
    return []


def reasons_of_group(facts: GroupFacts) -> list[str]:
    lag = facts.lag
    state = str(facts.group.state)
    reasons = []
    since = "" if facts.state_s is None else f", seen so for {facts.state_s:.0f} s"
    if state in _REBALANCING:
        reasons.append(f"Rebalancing: the group is {state}{since}; nobody commits meanwhile.")
    if not lag or lag < _LAG_MIN:
        return reasons
    if not facts.has_members:
        reasons.append(f"Stopped: the group has no members{since}, and {lag} records wait.")
    lagging = [each for each in facts.partitions if each.lag]
    held = [each for each in lagging if each.open_producer is not None]
    reasons += [f"{each.partition}: {_transaction(each)}" for each in held[:3]]
    if len(held) > 3:
        reasons.append(f"So do open transactions in {len(held) - 3} more partitions.")
    if facts.has_members:
        reasons += _of_members(facts, lagging, lag)
    return reasons


def _of_members(facts: GroupFacts, lagging: list[PartitionFacts], lag: int) -> list[str]:
    reasons = []
    stopped = [
        each
        for each in lagging
        if each.stuck_s is not None
        and each.stuck_s >= STUCK_S
        and each.open_producer is None
        and each.member is not None
    ]
    names = sorted({f"{each.member.client_id} on {each.member.host}" for each in stopped if each.member is not None})
    if names:
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        longest = max(each.stuck_s or 0.0 for each in stopped)
        reasons.append(f"Stopped: {shown} committed nothing in {len(stopped)} partitions for up to {longest:.0f} s.")
    without = [each for each in lagging if each.member is None and not each.is_shared]
    if without:
        reasons.append(f"{len(without)} partitions with lag belong to no member.")
    hottest = max(lagging, key=lambda each: each.lag or 0)
    if len(facts.partitions) > 1 and lag >= _HOT_LAG_MIN and (hottest.lag or 0) >= _HOT_PART * lag:
        rate = "" if hottest.in_rate is None else f", where {hottest.in_rate:.0f} records/s come in"
        reasons.append(f"One hot partition: {hottest.partition} has {hottest.lag} of {lag} records of lag{rate}.")
    slower = [
        each
        for each in lagging
        if each.commit_rate is not None
        and each.in_rate is not None
        and each.in_rate > each.commit_rate
        and each not in stopped
        and each.open_producer is None
    ]
    if slower:
        came, done = sum(each.in_rate or 0 for each in slower), sum(each.commit_rate or 0 for each in slower)
        reasons.append(f"Slower than what comes in: {done:.0f} records/s of {came:.0f} in {len(slower)} partitions.")
    return reasons
