"""DescribeUserScramCredentials, and who may ask for it and for changes."""

from __future__ import annotations

from tests.unit.broker.admin_node import AdminNode, Denies, ask, features
from tidelog.broker.node.node import load_handlers
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.internal.cluster_security import UserScramCredentialRecord
from tidelog.wire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    UserName,
)

load_handlers()


def stored(name: str, mechanism: int, iterations: int) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name, mechanism=mechanism, salt=b"s", stored_key=b"k", server_key=b"v", iterations=iterations
    )


def node() -> AdminNode:
    return AdminNode(*features(), stored("alice", 2, 8192), stored("bob", 1, 4096), stored("alice", 1, 4096))


def described(*users: str, is_null: bool = False, denies: Denies | None = None) -> DescribeUserScramCredentialsResponse:
    asked = None if is_null else [UserName(name=user) for user in users]
    request = DescribeUserScramCredentialsRequest(users=asked)
    return ask(node(), request, DescribeUserScramCredentialsResponse, 0, authorizer=denies)


def test_no_list_and_an_empty_one_mean_all_users() -> None:
    everybody = described(is_null=True)

    assert described() == everybody
    assert {each.user: [(c.mechanism, c.iterations) for c in each.credential_infos] for each in everybody.results} == {
        "alice": [(1, 4096), (2, 8192)],
        "bob": [(1, 4096)],
    }


def test_who_is_unknown_or_named_twice_is_told_so_alone() -> None:
    answer = described("bob", "carol", "alice", "alice")

    assert [(each.user, each.error_code, each.error_message) for each in answer.results] == [
        ("bob", 0, None),
        ("carol", 91, "Attempt to describe a user credential that does not exist: carol"),
        ("alice", 92, "Cannot describe SCRAM credentials for the same user twice in a single request: alice"),
    ]


def test_who_may_not_describe_the_cluster_learns_nothing() -> None:
    answer = described("bob", denies=Denies((AclOperation.DESCRIBE, ResourceType.CLUSTER, None)))

    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [(each.user, each.error_code) for each in answer.results] == [("", 31)]


def test_who_may_not_alter_the_cluster_changes_nothing() -> None:
    asked = node()
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="bob", mechanism=1)], upsertions=[]
    )

    denies = Denies((AclOperation.ALTER, ResourceType.CLUSTER, None))
    answer = ask(asked, request, AlterUserScramCredentialsResponse, 0, authorizer=denies)

    assert [(each.user, each.error_code) for each in answer.results] == [("bob", 31)]
    assert asked.forwarded == []
