"""Asks a node every request of the table as three callers, and notes its answers and the lines of its audit log.

    for row in answers(addresses, audit): ...       [label, caller, answer, lines]

The callers: `alice` has no rights; `bob` has exactly those that the request needs; `denied` may do everything with the same
resources, but for what the request needs, which he is denied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from tests.support.apache_kafka import wait_until
from tests.support.raw_client import RawClient
from tests.support.security_tables.access_administration import administration_cases
from tests.support.security_tables.access_cases import (
    ABSENT,
    DOOMED,
    GROUP,
    HIDDEN,
    SECRET,
    TOPIC,
    TRANSACTION,
    Case,
    Right,
)
from tests.support.security_tables.access_data import data_cases
from tests.support.security_tables.access_groups import group_cases, transaction_cases
from tests.support.security_tables.access_topics import metadata_cases
from tests.support.security_tables.messages import request, shown
from tests.support.security_tables.sasl_talk import SaslTalk, plain_token
from tests.support.security_tables.secured_node import PASSWORDS, Addresses
from tidelog.wire.apis import api
from tidelog.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

CALLERS = ("alice", "bob", "denied")
TOPICS = (TOPIC, SECRET, DOOMED)
ALLOW, DENY, ALL, ANY, LITERAL = 3, 2, 2, 1, 3
TOKENS = 38
NOT_READY = {14, 15, 16, 51}

Audit = Callable[[str], list[str]]
"""What the audit log has told of a principal since it was last asked."""


class Administrator:
    """Whoever prepares the node: a super user on its plain listener."""

    def __init__(self, bootstrap: str) -> None:
        self._client = RawClient(bootstrap)

    def ask(self, api_key: int, version: int, values: dict[str, Any]) -> Any:
        return self._client.call(request(api_key, values), api(api_key).response, version)

    def prepare(self) -> None:
        """Topics, groups with offsets and transactions, so that there is something to be seen or hidden."""
        self.make_topics()
        offsets = [
            {"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]}
        ]
        for group in (GROUP, HIDDEN):
            commit = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": offsets}
            self._until_ready(8, 8, commit, lambda told: told.topics[0].partitions[0].error_code)
            self.ask(10, 4, {"key_type": 0, "coordinator_keys": [group]})
        for name in (TRANSACTION, HIDDEN):
            init = {"transactional_id": name, "transaction_timeout_ms": 10_000, "producer_id": -1, "producer_epoch": -1}
            self._until_ready(22, 4, init, lambda told: told.error_code)

    def _until_ready(self, key: int, version: int, values: dict[str, Any], code: Callable[[Any], int]) -> None:
        """A coordinator that is being made is asked for, and asked again."""

        def is_done() -> bool:
            found = code(self.ask(key, version, values))
            if found in NOT_READY:
                self.ask(
                    10, 4, {"key_type": 0 if key == 8 else 1, "coordinator_keys": [GROUP if key == 8 else TRANSACTION]}
                )
                return False
            assert found == 0, found
            return True

        wait_until(is_done, "the coordinators are ready")

    def make_topics(self) -> dict[str, bytes]:
        """Those that are not there any more are made again. Their ids."""
        created = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        self.ask(19, 7, {"timeout_ms": 10_000, "topics": [{**created, "name": name} for name in TOPICS]})
        ids: dict[str, bytes] = {}

        def are_known() -> bool:
            asked = {"topics": [{"name": name} for name in TOPICS], "allow_auto_topic_creation": False}
            told = self.ask(3, 12, {**asked, "include_topic_authorized_operations": False})
            ids.update({topic.name: bytes(topic.topic_id) for topic in told.topics})
            return all(topic.error_code == 0 and topic.partitions[0].leader_id >= 0 for topic in told.topics)

        wait_until(are_known, "the broker knows the topics")
        return ids

    def grant(self, user: str, rights: Sequence[Right], *, denies: bool) -> None:
        """These and no others; returns when the broker goes by them."""
        everything = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
        nothing = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
        self.ask(31, 3, {"filters": [{**everything, **nothing}]})
        creations = [
            {"resource_type": kind, "resource_name": name, "operation": operation, "permission_type": permission}
            for right, kind, name in rights
            for operation, permission in ([(ALL, ALLOW), (right, DENY)] if denies else [(right, ALLOW)])
        ]
        unique = {tuple(each.items()): each for each in creations}
        principal = {"resource_pattern_type": LITERAL, "principal": f"User:{user}", "host": "*"}
        if unique:
            told = self.ask(30, 3, {"creations": [{**each, **principal} for each in unique.values()]})
            assert all(each.error_code == 0 for each in told.results), told

        def are_known() -> bool:
            found = self.ask(29, 3, {**everything, **nothing})
            return sum(len(each.acls) for each in found.resources) == len(unique)

        wait_until(are_known, "the broker knows the ACLs")

    def delete(self, *topics: str) -> None:
        self.ask(20, 6, {"timeout_ms": 10_000, "topics": [{"name": name} for name in topics]})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.__exit__(kind, error, trace)


def announced(bootstrap: str) -> set[int]:
    """The APIs that a node says it has."""
    with RawClient(bootstrap) as client:
        told: Any = client.call(
            request(18, {"client_software_name": "test", "client_software_version": "1"}), api(18).response, 3
        )
        return {each.api_key for each in told.api_keys}


def cases(ids: Mapping[str, bytes]) -> list[Case]:
    """All of the table, with the ids that topics have now."""
    return [*data_cases(ids), *metadata_cases(ids), *group_cases(), *transaction_cases(), *administration_cases()]


def answers(addresses: Addresses, audit: Audit) -> Iterator[list[Any]]:
    """Of all requests that the node announces."""
    known = announced(addresses.plain)
    with Administrator(addresses.plain) as administrator:
        administrator.prepare()
        if TOKENS in known:
            make_token(addresses.sasl)
        for number in range(len(cases(administrator.make_topics()))):
            for caller in CALLERS:
                # Their ids change when they are deleted and made again.
                case = cases(administrator.make_topics())[number]
                if case.api_key not in known:
                    continue
                rights = () if caller == "alice" else case.rights
                administrator.grant(caller, rights, denies=caller == "denied")
                audit(caller)
                yield [case.label, caller, _answer(addresses.sasl, caller, case), audit(caller)]
        administrator.delete(ABSENT)


def make_token(address: str) -> None:
    """One of the administrator's, who has to have said who he is for it."""
    own = {"owner_principal_type": "", "owner_principal_name": "", "renewers": [], "max_lifetime_ms": -1}
    with SaslTalk(address) as talk:
        talk.plain("admin", PASSWORDS["admin"])
        told = talk.ask(request(TOKENS, own), 3)
        assert told.error_code == 0, told


def _answer(address: str, caller: str, case: Case) -> str:
    with SaslTalk(address) as talk:
        talk.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        talk.ask(SaslAuthenticateRequest(auth_bytes=plain_token(caller, PASSWORDS[caller])), 2)
        talk.send(talk.frame(request(case.api_key, case.values), case.version))
        frame = talk.received()
        if frame is None:
            return "closed"
        return shown(talk.read(frame))
