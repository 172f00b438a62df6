"""A member of a streams group that only beats: it processes nothing, and says which tasks it has."""

from __future__ import annotations

import time

from tests.support.beating_member import DEADLINE_S, coordinator_of
from tests.support.raw_client import RawClient
from tests.support.streams_groups import Claims, join, task_ids, tasks_in
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages import streams_groups as wire
from tidelog.wire.messages.streams_groups import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse

_COMES_AGAIN = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


class BeatingStreamsMember:
    """One member, on one connection to its coordinator."""

    def __init__(self, bootstrap: str, group: str, of: wire.Topology, member_id: str = "m") -> None:
        self.group = group
        self.member_id = member_id
        self.epoch = 0
        self.has: Claims = ({}, {})
        self.status: list[str] = []
        self._of = of
        self._client = RawClient(coordinator_of(bootstrap, group))

    @property
    def active_count(self) -> int:
        return sum(len(tuple(numbers)) for numbers in self.has[0].values())

    def beat(self) -> ErrorCode:
        if self.epoch == 0:
            request = join(self.member_id, self._of, group=self.group)
        else:
            request = StreamsGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=self.epoch,
                endpoint_information_epoch=0,
                active_tasks=task_ids(self.has[0]),
                standby_tasks=task_ids(self.has[1]),
                warmup_tasks=[],
            )
        answer = self._client.call(request, StreamsGroupHeartbeatResponse, 0)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            self.status = [each.status_detail for each in answer.status or ()]
            if answer.active_tasks is not None:
                self.has = (tasks_in(answer.active_tasks), tasks_in(answer.standby_tasks))
        return ErrorCode.of(answer.error_code)

    def beat_on(self) -> None:
        """A heartbeat that is taken, once the coordinator is ready for it."""
        deadline = time.monotonic() + DEADLINE_S
        while (error := self.beat()) is not ErrorCode.NONE:
            assert error in _COMES_AGAIN, error
            assert time.monotonic() < deadline, error

    def join(self, task_count: int) -> BeatingStreamsMember:
        """Beat until it has so many active tasks. Each heartbeat waits for its answer, and nothing else."""
        deadline = time.monotonic() + DEADLINE_S
        while self.active_count != task_count:
            self.beat_on()
            assert time.monotonic() < deadline, f"{self.has} are not {task_count} tasks: {self.status}"
        return self

    def find_coordinator(self, bootstrap: str) -> None:
        """Go on with whoever coordinates the group now."""
        self._client.__exit__(None, None, None)
        self._client = RawClient(coordinator_of(bootstrap, self.group))

    def leave(self) -> None:
        """The group goes on without it; the connection ends."""
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=-1, endpoint_information_epoch=0
        )
        assert self._client.call(request, StreamsGroupHeartbeatResponse, 0).error_code == ErrorCode.NONE
        self._client.__exit__(None, None, None)
