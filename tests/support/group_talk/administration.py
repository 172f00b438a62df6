"""What somebody asks who is no member: FindCoordinator, ListGroups, DescribeGroups, DeleteGroups."""

from __future__ import annotations

from tests.support.group_talk.notes import Notes, error_name
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

# The first versions that say what the caller may do, and that ask for several keys at once.
_OPERATIONS_VERSION = 3
_KEYS_VERSION = 4


class AdministrationTalk(Notes):
    """Of one group, and of others whose names begin with its own."""

    def ask_state(self) -> str:
        """The state of a classic group as it is now, which is not noted."""
        request = DescribeGroupsRequest(groups=[self.group], include_authorized_operations=False)
        (group,) = self.call(request, DescribeGroupsResponse, 5).groups
        return group.group_state

    def describe(self, *groups: str, version: int = 6) -> None:
        request = DescribeGroupsRequest(
            groups=list(groups or [self.group]), include_authorized_operations=version >= _OPERATIONS_VERSION
        )
        answer = self.call(request, DescribeGroupsResponse, version)
        for group in sorted(answer.groups, key=lambda each: each.group_id):
            members = [
                (
                    self.name(each.member_id),
                    each.group_instance_id,
                    each.client_id,
                    each.client_host,
                    each.member_metadata,
                    each.member_assignment,
                )
                for each in group.members
            ]
            self.note(
                "describe classic",
                error_name(group.error_code),
                group.error_message,
                group.group_id,
                group.group_state,
                group.protocol_type,
                group.protocol_data,
                group.authorized_operations,
                sorted(members, key=repr),
            )

    def list(self, states: list[str] | None = None, types: list[str] | None = None, version: int = 5) -> None:
        request = ListGroupsRequest(states_filter=states or [], types_filter=types or [])
        answer = self.call(request, ListGroupsResponse, version)
        rows = [
            (each.group_id, each.protocol_type, each.group_state, each.group_type)
            for each in answer.groups
            if each.group_id.startswith(self.group)
        ]
        self.note("list", error_name(answer.error_code), sorted(rows))

    def delete(self, *groups: str, version: int = 2) -> None:
        request = DeleteGroupsRequest(groups_names=[*groups] or [self.group])
        answer = self.call(request, DeleteGroupsResponse, version)
        self.note("delete", sorted((each.group_id, error_name(each.error_code)) for each in answer.results))

    def find(self, *keys: str, version: int = 6, key_type: int = 0) -> None:
        asks_for_several = version >= _KEYS_VERSION
        request = FindCoordinatorRequest(
            key="" if asks_for_several else keys[0],
            key_type=key_type,
            coordinator_keys=[*keys] if asks_for_several else [],
        )
        answer = self.call(request, FindCoordinatorResponse, version)
        found = [(each.key, each.node_id, each.host, error_name(each.error_code)) for each in answer.coordinators]
        if not asks_for_several:
            found = [("", answer.node_id, answer.host, error_name(answer.error_code))]
        self.note("find", found)
