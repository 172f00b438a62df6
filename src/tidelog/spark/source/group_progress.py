"""The group that shows how far a query has read: as much of an admin as it takes to commit offsets."""

from __future__ import annotations

from tidelog.client.admin.group_offsets import GroupOffsetCalls
from tidelog.client.admin.requests import Requests


class GroupProgress(GroupOffsetCalls):
    """Over the connections of the query's driver."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
