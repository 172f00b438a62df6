"""A member of a share group, as it is written down.

It has no state but its epoch: with its next heartbeat after a new target it has what the target gives it, since a partition may
be with several members and nobody has to let go of one first.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tidelog.coordination.consumer.assignors.subscription import NOTHING, Assignment
from tidelog.model.ids import TopicId, TopicName

JOINING_EPOCH = 0
LEAVING_EPOCH = -1


class ShareMember(Struct, frozen=True):
    """A member; new ones have epoch 0."""

    member_id: str
    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_names: tuple[TopicName, ...] = ()
    """In ascending order, each once."""
    assigned: Assignment = NOTHING

    def reconciled(self, epoch: int, target: Assignment, topic_ids: set[TopicId]) -> ShareMember:
        """With what a target gives it, as far as it reads those topics still."""
        assigned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in topic_ids}
        if epoch == self.member_epoch:
            return replace(self, assigned=assigned)
        return replace(self, assigned=assigned, member_epoch=epoch, previous_member_epoch=self.member_epoch)
