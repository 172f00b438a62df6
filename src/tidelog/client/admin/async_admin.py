"""`AsyncAdmin`: administration of a cluster, on the caller's event loop."""

from __future__ import annotations

import asyncio
from typing import Self, Unpack

from tidelog.client.admin.acls import AclCalls
from tidelog.client.admin.cluster import ClusterCalls
from tidelog.client.admin.configs import ConfigCalls
from tidelog.client.admin.delegation_tokens import DelegationTokenCalls
from tidelog.client.admin.group_offsets import GroupOffsetCalls
from tidelog.client.admin.log_dirs import LogDirCalls
from tidelog.client.admin.options import AdminArguments, AdminOptions
from tidelog.client.admin.quotas import QuotaCalls
from tidelog.client.admin.raft_voters import RaftVoterCalls
from tidelog.client.admin.reassignments import ReassignmentCalls
from tidelog.client.admin.requests import Requests
from tidelog.client.admin.scram import ScramCalls
from tidelog.client.admin.transactions import TransactionCalls
from tidelog.client.closing import AsyncClosedAtExit
from tidelog.client.options import parse_options
from tidelog.client.seams import ClientSeams


class AsyncAdmin(
    TransactionCalls,
    ConfigCalls,
    QuotaCalls,
    ClusterCalls,
    RaftVoterCalls,
    LogDirCalls,
    ReassignmentCalls,
    GroupOffsetCalls,
    ScramCalls,
    DelegationTokenCalls,
    AclCalls,
    AsyncClosedAtExit,
):
    """Administration of any Kafka cluster.

    >>> async with AsyncAdmin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...     await admin.create_topic("orders", partitions=6)
    ...     print(await admin.describe_topic("orders"))

    A call about one thing returns its answer or raises a ClientError. A call about several returns one outcome for each: the
    answer, or the ClientError that this one met; it raises only where the cluster gave no answer at all. `default_api_timeout_ms`
    limits each call with all its attempts. The other options are in `AdminOptions`; an unknown one is refused.
    """

    def __init__(self, **options: Unpack[AdminArguments]) -> None:
        self._open(ClientSeams.of(asyncio.get_running_loop()), options)

    @classmethod
    def on(cls, seams: ClientSeams, **options: Unpack[AdminArguments]) -> Self:
        """One that lives on a loop, a network and a clock of the caller's."""
        self = cls.__new__(cls)
        self._open(seams, options)
        return self

    def _open(self, seams: ClientSeams, options: AdminArguments) -> None:
        self._requests = Requests(seams, parse_options(AdminOptions, options))

    @property
    def requests(self) -> Requests:
        """For what has no method here: requests of the caller's own over the same connections."""
        return self._requests

    async def connect(self) -> None:
        """Reach the cluster now, trying each of the bootstrap servers once. NotReachedError says why none will do.

        Not needed before other calls, which wait for a cluster that is still starting.
        """
        await self._requests.connect()

    async def close(self) -> None:
        """The end: calls under way fail with ClosedError."""
        self._requests.close()
