"""What members of the new protocol say, and what they are described as: ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

from __future__ import annotations

from typing import Any

from tests.support.group_talk.notes import REBALANCE_MS, Notes, error_name
from tidelog.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedGroup,
    TopicPartitions,
)


class ConsumerTalk(Notes):
    """Members choose their own ids, as from version 1 on; short ones are told as they are."""

    def beat(self, member_id: str, epoch: int, **said: Any) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat; its whole answer is noted, but for the sentence where `says_message` is false."""
        says_message = said.pop("says_message", True)
        answer = self.ask_beat(member_id, epoch, **said)
        given = None
        if answer.assignment is not None:
            given = sorted(
                (self.topic_name("", each.topic_id), sorted(each.partitions))
                for each in answer.assignment.topic_partitions
            )
        self.note(
            "beat",
            error_name(answer.error_code),
            answer.error_message if says_message else None,
            self.name(answer.member_id),
            answer.member_epoch,
            answer.heartbeat_interval_ms,
            given,
        )
        return answer

    def ask_beat(
        self,
        member_id: str,
        epoch: int,
        *,
        version: int = 1,
        instance: str | None = None,
        rack: str | None = None,
        rebalance_ms: int = -1,
        topics: list[str] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        owned: dict[str, list[int]] | None = None,
        group: str | None = None,
    ) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat whose answer is not noted."""
        partitions = None
        if owned is not None:
            partitions = [TopicPartitions(topic_id=self.topic_id(name), partitions=of) for name, of in owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_or(group),
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=partitions,
        )
        return self.call(request, ConsumerGroupHeartbeatResponse, version)

    def enter(self, member_id: str = "member", **said: Any) -> int:
        """Joins and reads orders; the epoch once there is an assignment."""
        said = {"rebalance_ms": REBALANCE_MS, "topics": ["orders"], "owned": {}, **said}
        return self.beat(member_id, 0, **said).member_epoch

    def ask_members(self) -> set[str]:
        """The ids of the members as they are now, which are not noted."""
        return {each.member_id for each in self.ask_group().members}

    def ask_group(self) -> DescribedGroup:
        """The group as it is now, which is not noted."""
        request = ConsumerGroupDescribeRequest(group_ids=[self.group], include_authorized_operations=False)
        (group,) = self.call(request, ConsumerGroupDescribeResponse, 1).groups
        return group

    def describe_consumer(self, *groups: str, version: int = 1) -> None:
        request = ConsumerGroupDescribeRequest(
            group_ids=list(groups or [self.group]), include_authorized_operations=True
        )
        answer = self.call(request, ConsumerGroupDescribeResponse, version)
        for group in sorted(answer.groups, key=lambda each: each.group_id):
            members = [
                (
                    self.name(each.member_id),
                    each.instance_id,
                    each.rack_id,
                    each.member_epoch,
                    each.client_id,
                    each.client_host,
                    sorted(each.subscribed_topic_names),
                    each.subscribed_topic_regex,
                    [
                        sorted((topic.topic_name, sorted(topic.partitions)) for topic in of.topic_partitions)
                        for of in (each.assignment, each.target_assignment)
                    ],
                    each.member_type,
                )
                for each in group.members
            ]
            self.note(
                "describe",
                error_name(group.error_code),
                group.error_message,
                group.group_id,
                group.group_state,
                group.group_epoch,
                group.assignment_epoch,
                group.assignor_name,
                group.authorized_operations,
                sorted(members, key=repr),
            )
