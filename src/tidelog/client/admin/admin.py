"""`Admin`: administration of a cluster by calls that wait."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from tidelog.client.admin.async_admin import AsyncAdmin
from tidelog.client.admin.options import AdminArguments
from tidelog.client.background import Background
from tidelog.client.closing import ClosedAtExit
from tidelog.client.errors import ClosedError
from tidelog.client.seams import ClientSeams

P = ParamSpec("P")
T = TypeVar("T")


def _waiting(
    method: Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Admin, P], T]:
    """The same method, done by the time it returns."""

    @wraps(method)
    def call(self: Admin, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._call(lambda core: method(core, *args, **kwargs))

    return call


class Admin(ClosedAtExit):
    """Administration of any Kafka cluster. Each method is that of `AsyncAdmin`, and waits for the answer.

    >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...     admin.create_topic("orders", partitions=6)
    ...     print(admin.describe_topic("orders"))

    May be used from several threads. The options are those of `AdminOptions`.
    """

    def __init__(self, **options: Unpack[AdminArguments]) -> None:
        self._background: Background | None = Background.acquire()
        background = self._background

        async def begin() -> AsyncAdmin:
            return AsyncAdmin.on(ClientSeams.of(background.loop), **options)

        try:
            self._admin = background.call(begin())
        except BaseException:
            background.release()
            raise

    connect = _waiting(AsyncAdmin.connect)

    list_topics = _waiting(AsyncAdmin.list_topics)
    describe_topics = _waiting(AsyncAdmin.describe_topics)
    describe_topic = _waiting(AsyncAdmin.describe_topic)
    describe_topics_by_id = _waiting(AsyncAdmin.describe_topics_by_id)
    create_topics = _waiting(AsyncAdmin.create_topics)
    create_topic = _waiting(AsyncAdmin.create_topic)
    delete_topics = _waiting(AsyncAdmin.delete_topics)
    delete_topic = _waiting(AsyncAdmin.delete_topic)
    delete_topics_by_id = _waiting(AsyncAdmin.delete_topics_by_id)
    create_partitions = _waiting(AsyncAdmin.create_partitions)

    list_offsets = _waiting(AsyncAdmin.list_offsets)
    list_offset = _waiting(AsyncAdmin.list_offset)
    delete_records = _waiting(AsyncAdmin.delete_records)

    describe_configs = _waiting(AsyncAdmin.describe_configs)
    describe_config = _waiting(AsyncAdmin.describe_config)
    incremental_alter_configs = _waiting(AsyncAdmin.incremental_alter_configs)
    alter_config = _waiting(AsyncAdmin.alter_config)
    alter_configs = _waiting(AsyncAdmin.alter_configs)
    list_config_resources = _waiting(AsyncAdmin.list_config_resources)

    describe_client_quotas = _waiting(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = _waiting(AsyncAdmin.alter_client_quotas)
    alter_client_quota = _waiting(AsyncAdmin.alter_client_quota)

    describe_cluster = _waiting(AsyncAdmin.describe_cluster)
    describe_quorum = _waiting(AsyncAdmin.describe_quorum)
    add_raft_voter = _waiting(AsyncAdmin.add_raft_voter)
    remove_raft_voter = _waiting(AsyncAdmin.remove_raft_voter)
    describe_features = _waiting(AsyncAdmin.describe_features)
    update_features = _waiting(AsyncAdmin.update_features)
    elect_leaders = _waiting(AsyncAdmin.elect_leaders)
    unregister_broker = _waiting(AsyncAdmin.unregister_broker)

    describe_log_dirs = _waiting(AsyncAdmin.describe_log_dirs)
    alter_replica_log_dirs = _waiting(AsyncAdmin.alter_replica_log_dirs)
    alter_partition_reassignments = _waiting(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = _waiting(AsyncAdmin.list_partition_reassignments)

    list_groups = _waiting(AsyncAdmin.list_groups)
    describe_groups = _waiting(AsyncAdmin.describe_groups)
    describe_group = _waiting(AsyncAdmin.describe_group)
    describe_streams_groups = _waiting(AsyncAdmin.describe_streams_groups)
    delete_groups = _waiting(AsyncAdmin.delete_groups)
    delete_group = _waiting(AsyncAdmin.delete_group)
    remove_members = _waiting(AsyncAdmin.remove_members)
    list_group_offsets = _waiting(AsyncAdmin.list_group_offsets)
    alter_group_offsets = _waiting(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = _waiting(AsyncAdmin.delete_group_offsets)
    group_lag = _waiting(AsyncAdmin.group_lag)
    list_share_group_offsets = _waiting(AsyncAdmin.list_share_group_offsets)
    alter_share_group_offsets = _waiting(AsyncAdmin.alter_share_group_offsets)
    delete_share_group_offsets = _waiting(AsyncAdmin.delete_share_group_offsets)

    create_acls = _waiting(AsyncAdmin.create_acls)
    delete_acls = _waiting(AsyncAdmin.delete_acls)
    describe_acls = _waiting(AsyncAdmin.describe_acls)

    list_transactions = _waiting(AsyncAdmin.list_transactions)
    describe_transactions = _waiting(AsyncAdmin.describe_transactions)
    describe_transaction = _waiting(AsyncAdmin.describe_transaction)
    end_transaction = _waiting(AsyncAdmin.end_transaction)
    fence_producers = _waiting(AsyncAdmin.fence_producers)
    fence_producer = _waiting(AsyncAdmin.fence_producer)
    pin_transaction = _waiting(AsyncAdmin.pin_transaction)
    describe_producers = _waiting(AsyncAdmin.describe_producers)
    abort_transaction = _waiting(AsyncAdmin.abort_transaction)
    abort_hanging = _waiting(AsyncAdmin.abort_hanging)
    find_open_transaction = _waiting(AsyncAdmin.find_open_transaction)
    find_hanging_transactions = _waiting(AsyncAdmin.find_hanging_transactions)

    describe_user_scram_credentials = _waiting(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = _waiting(AsyncAdmin.alter_user_scram_credentials)

    create_delegation_token = _waiting(AsyncAdmin.create_delegation_token)
    renew_delegation_token = _waiting(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = _waiting(AsyncAdmin.expire_delegation_token)
    describe_delegation_token = _waiting(AsyncAdmin.describe_delegation_token)

    def close(self) -> None:
        """The end. May be called again."""
        background, self._background = self._background, None
        if background is not None:
            try:
                background.call(self._admin.close())
            finally:
                background.release()

    def _call(self, work: Callable[[AsyncAdmin], Coroutine[Any, Any, T]]) -> T:
        if self._background is None:
            raise ClosedError("the admin is closed")
        return self._background.call(work(self._admin))
