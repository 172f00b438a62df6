"""The same operations on a node that judges every request: by 1,000 ACLs, or by quotas that nobody comes near.

A guarded operation is prepared as the one it is held against; then the rules are made, and it is waited for that the node goes by
them, so that they are in force for all that is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from benchmarks.instructions.operations import (
    CLIENT_ID,
    Client,
    Fetch,
    Operation,
    Produce,
    SessionFetch,
    Setting,
    check,
)
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tidelog.wire.messages.client_quotas import (
    AlterClientQuotasEntryData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

ACLS = 1_000
ACLS_A_REQUEST = 100
# Who comes without TLS and without a login.
CALLER = "ANONYMOUS"
TOPIC_AUTHORIZATION_FAILED = 29
# Kafka's numbers.
ANY, ALLOW = 1, 3
TOPIC, GROUP = 2, 3
LITERAL, PREFIXED = 3, 4
READ, WRITE = 3, 4
EXACT = 0

# Nobody comes near these.
QUOTAS = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e6}


class GuardedByAcls(Operation):
    """The caller's right is one of 1,000, some of which are about prefixes of its topic's name."""

    # Whoever makes the first ACLs needs the right to; the topic itself has ACLs, and goes by them.
    settings: ClassVar[Mapping[str, str]] = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }

    def prepare(self, times: int) -> None:
        super().prepare(times)  # type: ignore[safe-super]  # of the operation it is mixed with
        client = self.setting.client
        acls = list(_acls(self.setting))
        for first in range(0, ACLS, ACLS_A_REQUEST):
            request = CreateAclsRequest(creations=acls[first : first + ACLS_A_REQUEST])
            for result in client.ask(request, 3, CreateAclsResponse).results:
                check(result.error_code)
        asked = DescribeAclsRequest(
            resource_type_filter=ANY,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        while True:
            resources = client.ask(asked, 3, DescribeAclsResponse).resources
            if sum(len(resource.acls) for resource in resources) == ACLS:
                break
        _check_denied(client, "other-0")


def _acls(setting: Setting) -> Iterator[AclCreation]:
    """All of them: two are the caller's."""
    (topic,) = setting.topics
    for operation in (READ, WRITE):
        yield _acl(TOPIC, topic, LITERAL, CALLER, operation)
    for number in range(ACLS - 2):
        user, operation = f"user-{number}", READ if number % 2 else WRITE
        if number < 600:
            yield _acl(TOPIC, f"other-{number}", LITERAL, user, operation)
        elif number < 800:
            yield _acl(TOPIC, f"other-{number}-", PREFIXED, user, operation)
        elif number < 900:
            yield _acl(TOPIC, topic[: 1 + number % len(topic)], PREFIXED, user, operation)
        else:
            yield _acl(GROUP, f"group-{number}", LITERAL, user, READ)


def _acl(resource_type: int, name: str, pattern_type: int, user: str, operation: int) -> AclCreation:
    return AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=pattern_type,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=ALLOW,
    )


def _check_denied(client: Client, topic: str) -> None:
    """The node does judge by them: what only others may is refused."""
    asked = [MetadataRequestTopic(topic_id=ZERO_UUID, name=topic)]
    request = MetadataRequest(topics=asked, include_topic_authorized_operations=False)
    (answer,) = client.ask(request, 12, MetadataResponse).topics
    if answer.error_code != TOPIC_AUTHORIZATION_FAILED:
        raise RuntimeError(f"the ACLs are not in force: {topic} was answered with the error {answer.error_code}")


class GuardedByQuotas(Operation):
    """All three quotas of a user with a client id."""

    def prepare(self, times: int) -> None:
        super().prepare(times)  # type: ignore[safe-super]  # of the operation it is mixed with
        client = self.setting.client
        entity = {"user": CALLER, "client-id": CLIENT_ID}
        change = AlterClientQuotasEntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[OpData(key=key, value=value, remove=False) for key, value in QUOTAS.items()],
        )
        altered = client.ask(
            AlterClientQuotasRequest(entries=[change], validate_only=False), 1, AlterClientQuotasResponse
        )
        check(altered.entries[0].error_code)
        components = [ComponentData(entity_type=kind, match_type=EXACT, match=name) for kind, name in entity.items()]
        asked = DescribeClientQuotasRequest(components=components, strict=True)
        while True:
            answer = client.ask(asked, 1, DescribeClientQuotasResponse)
            check(answer.error_code)
            if {value.key for entry in answer.entries or () for value in entry.values} == set(QUOTAS):
                break


class ProduceWithAcls(GuardedByAcls, Produce):
    name = "produce, 1,000 ACLs"
    without = "produce"


class FetchWithAcls(GuardedByAcls, Fetch):
    name = "fetch without a session, 1,000 ACLs"
    without = "fetch"


class SessionFetchWithAcls(GuardedByAcls, SessionFetch):
    name = "fetch in a session of 1 partition, 1,000 ACLs"
    without = "fetch-session"


class ProduceWithQuotas(GuardedByQuotas, Produce):
    name = "produce, quotas not reached"
    without = "produce"


class FetchWithQuotas(GuardedByQuotas, Fetch):
    name = "fetch without a session, quotas not reached"
    without = "fetch"


class SessionFetchWithQuotas(GuardedByQuotas, SessionFetch):
    name = "fetch in a session of 1 partition, quotas not reached"
    without = "fetch-session"


GUARDED: dict[str, type[Operation]] = {
    "produce-acls": ProduceWithAcls,
    "fetch-acls": FetchWithAcls,
    "fetch-session-acls": SessionFetchWithAcls,
    "produce-quotas": ProduceWithQuotas,
    "fetch-quotas": FetchWithQuotas,
    "fetch-session-quotas": SessionFetchWithQuotas,
}
