"""Whether a user may see what the cluster itself does not tell: Describe and Read of a topic, Describe of the cluster.

The nodes' own pages know no users, and neither does the audit log. So the cluster is asked first, as this user, what the user
may do.
"""

from __future__ import annotations

from tidelog.client.admin.requests import ANYONE
from tidelog.client.errors import RefusedError, refusal
from tidelog.console.cluster.view import ClusterView
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_NEEDED = (1 << AclOperation.DESCRIBE) | (1 << AclOperation.READ)
# What nodes say that were not asked, or have no answer: no authorizer among them says so.
_NOT_TOLD = -(2**31)


async def check_rights(view: ClusterView, topic: str) -> None:
    """RefusedError where the user may not read the topic, or there is none."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=ZERO_UUID, name=topic)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
    )
    answer = await view.admin.requests.ask(ANYONE, request, MetadataResponse)
    for found in answer.topics:
        if found.error_code:
            raise refusal(found.error_code, None, about=f"topic {topic}")
        operations = found.topic_authorized_operations
        if operations != _NOT_TOLD and operations & _NEEDED == _NEEDED:
            return
    raise RefusedError(
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        f"topic {topic}: what happens to its records is for those who may read it (TOPIC_AUTHORIZATION_FAILED)",
    )


async def may_describe_cluster(view: ClusterView) -> bool:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True, include_fenced_brokers=False)
    answer = await view.admin.requests.ask(ANYONE, request, DescribeClusterResponse)
    if answer.error_code:
        raise refusal(answer.error_code, answer.error_message)
    operations = answer.cluster_authorized_operations
    return operations != _NOT_TOLD and bool(operations & (1 << AclOperation.DESCRIBE))
