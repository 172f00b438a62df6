"""The rules of a guarded node, and the node without any beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.broker.contestants import Contestant, ContestantError, Tidelog
from benchmarks.broker.figures import OPEN
from tidelog.client.admin import Admin
from tidelog.client.admin.acls import AclBinding
from tidelog.client.admin.quotas import QUOTA_DEFAULT, QuotaEntity
from tidelog.model.acl import AclOperation, PatternType, ResourceType

ACLS = 1_000
# Who comes without TLS and without a login.
CALLER = "User:ANONYMOUS"
# What the topics of a run begin with.
TOPICS = "bench-"

ACL_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Whoever makes the first ACLs needs the right to; the topics of a run have ACLs, and go by them.
    "allow.everyone.if.no.acl.found": "true",
}
QUOTAS = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e6}


class OpenNode(Tidelog):
    """The same program, with no rules at all."""

    name = OPEN

    def __init__(self, root: Path, settings: Mapping[str, str] | None = None) -> None:
        del settings
        super().__init__(root)
        self.name = OPEN


def make_acls(node: Contestant) -> None:
    """All of them: some are the caller's, some about prefixes of its topics, most about others."""
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        acls = list(_acls())
        for acl, error in admin.create_acls(acls).items():
            if error is not None:
                raise ContestantError(f"{acl} is not made: {error}")
        if len(admin.describe_acls()) != ACLS:
            raise ContestantError("not all ACLs are there")


def _acls() -> Iterator[AclBinding]:
    for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE):
        yield AclBinding(ResourceType.TOPIC, TOPICS, CALLER, operation, pattern_type=PatternType.PREFIXED)
    for number in range(ACLS - 4):
        user = f"User:user-{number}"
        operation = AclOperation.READ if number % 2 else AclOperation.WRITE
        if number < 600:
            yield AclBinding(ResourceType.TOPIC, f"other-{number}", user, operation)
        elif number < 800:
            yield AclBinding(ResourceType.TOPIC, f"other-{number}-", user, operation, pattern_type=PatternType.PREFIXED)
        elif number < 900:
            prefix = TOPICS[: 1 + number % len(TOPICS)]
            yield AclBinding(ResourceType.TOPIC, prefix, user, operation, pattern_type=PatternType.PREFIXED)
        else:
            yield AclBinding(ResourceType.GROUP, f"group-{number}", user, AclOperation.READ)


def make_quotas(node: Contestant) -> None:
    """For every user with every client id."""
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        admin.alter_client_quota(QuotaEntity(user=QUOTA_DEFAULT, client_id=QUOTA_DEFAULT), QUOTAS)
