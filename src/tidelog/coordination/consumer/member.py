"""A member of a group, as it is written down.

Its state, by what it waits for:

    from \\ event            a newer target           has let go              was let go by others
    STABLE                  any of the three         -                       -
    UNREVOKED_PARTITIONS    -                        any of the three        -
    UNRELEASED_PARTITIONS   any of the three         -                       STABLE, or still waiting

STABLE has all that it should have, at the epoch of the target. UNREVOKED_PARTITIONS has to let go of partitions first, and stays
in its epoch until then. UNRELEASED_PARTITIONS is in the target's epoch, and waits for partitions that others hold.
`reconciliation.reconcile` makes every transition.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field

from tidelog.model.ids import TopicId, TopicName
from tidelog.wire.messages.internal.consumer_group_records import ClassicMemberMetadata

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2

OwnedPartitions = Mapping[TopicId, Mapping[int, int]]
"""By topic: the partitions, each with the epoch in which the member got it. No topic without partitions."""


class MemberState(IntEnum):
    """As the log has it."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, _value: object) -> MemberState:
        """A state of a later release: the member has to begin anew."""
        return cls.UNKNOWN


class ConsumerMember(Struct, frozen=True):
    """A member; new ones have epoch 0."""

    member_id: str
    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_names: tuple[TopicName, ...] = ()
    """In ascending order, each once."""
    subscribed_regex: str | None = ""
    server_assignor: str | None = None
    assigned: OwnedPartitions = field(default_factory=dict)
    pending_revocation: OwnedPartitions = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None
    """Set where the member speaks the classic protocol."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def assignment_epoch(self, topic_id: TopicId, partition: int) -> int | None:
        """Since which epoch the member has the partition; None where it has not."""
        for owned in (self.assigned, self.pending_revocation):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
