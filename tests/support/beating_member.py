"""A member of a share group that only beats: it takes no records, and says what it is given."""

from __future__ import annotations

import time

from tests.support.raw_client import RawClient
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

MEMBER = "b2c9d4f0-1111-4222-8333-444455556666"
DEADLINE_S = 30.0
_COMES_AGAIN = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


def coordinator_of(bootstrap: str, key: str, key_type: int = 0) -> str:
    """The address of a group's coordinator, or with key type 2 of a share partition's."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        with RawClient(bootstrap.split(",", maxsplit=1)[0]) as client:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            found = client.call(request, FindCoordinatorResponse, 6).coordinators[0]
        if found.error_code == ErrorCode.NONE:
            return f"{found.host}:{found.port}"
        assert found.error_code in _COMES_AGAIN, found
    raise AssertionError(f"nobody coordinates {key}")


class BeatingMember:
    """One member, on one connection to its coordinator."""

    def __init__(self, bootstrap: str, group: str, *topics: str, member_id: str = MEMBER) -> None:
        self.group = group
        self.member_id = member_id
        self.epoch = 0
        self.partitions: dict[bytes, list[int]] = {}
        self._topics = list(topics)
        self._client = RawClient(coordinator_of(bootstrap, group))

    def beat(self) -> ErrorCode:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            subscribed_topic_names=self._topics if self.epoch == 0 else None,
        )
        answer = self._client.call(request, ShareGroupHeartbeatResponse, 1)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.partitions = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        return ErrorCode.of(answer.error_code)

    def beat_on(self) -> None:
        """A heartbeat that is taken, once the coordinator is ready for it."""
        deadline = time.monotonic() + DEADLINE_S
        while (error := self.beat()) is not ErrorCode.NONE:
            assert error in _COMES_AGAIN, error
            assert time.monotonic() < deadline, error

    def join(self, partition_count: int) -> BeatingMember:
        """Beat until so many partitions are assigned. Each heartbeat waits for its answer, and nothing else."""
        deadline = time.monotonic() + DEADLINE_S
        while sum(map(len, self.partitions.values())) != partition_count:
            self.beat_on()
            assert time.monotonic() < deadline, f"{self.partitions} is not {partition_count} partitions"
        return self

    def find_coordinator(self, bootstrap: str) -> None:
        """Go on with whoever coordinates the group now."""
        self._client.__exit__(None, None, None)
        self._client = RawClient(coordinator_of(bootstrap, self.group))

    def leave(self) -> None:
        """The group goes on without it; the connection ends."""
        self.epoch = -1
        assert self.beat() is ErrorCode.NONE
        self._client.__exit__(None, None, None)
