"""A member of a streams group, as it is written down. One process may be several members, one for each of its threads.

Its state, by what it waits for:

    from \\ event         a newer target           has let go               was let go by others
    STABLE               any of the three         -                        -
    UNREVOKED_TASKS      -                        any of the three         -
    UNRELEASED_TASKS     any of the three         -                        STABLE, or still waiting

STABLE has all that it should have, at the epoch of the target. UNREVOKED_TASKS has to let go of tasks first, and stays in its
epoch until then. UNRELEASED_TASKS is in the target's epoch, and waits for tasks that other processes hold, or that its own
process holds in another role. `reconciliation.reconcile` makes every transition.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from tidelog.coordination.streams.tasks import NOTHING_OWNED, OwnedTasks

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2


class MemberState(IntEnum):
    """As the log has it."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, _value: object) -> MemberState:
        """A state of a later release: the member has to begin anew."""
        return cls.UNKNOWN


class UserEndpoint(NamedTuple):
    """Where a process answers queries of its application's users."""

    host: str
    port: int


class StreamsMember(Struct, frozen=True):
    """A member; new ones have epoch 0."""

    member_id: str
    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: UserEndpoint | None = None
    client_tags: Mapping[str, str] = {}
    assigned: OwnedTasks = NOTHING_OWNED
    pending_revocation: OwnedTasks = NOTHING_OWNED

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def assignment_epoch(self, subtopology_id: str, partition: int) -> int | None:
        """Since which epoch the member has the active task; None where it has not."""
        for owned in (self.assigned, self.pending_revocation):
            epoch = owned.active.get(subtopology_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
