"""A node with users, ACLs, quotas and tokens changes hands: what one program has kept, the other one goes by, and back again."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.support.apache_kafka import ApacheKafka, wait_until
from tests.support.security_tables.access_talk import Administrator
from tests.support.security_tables.messages import request
from tests.support.security_tables.sasl_talk import SaslTalk, scram_final
from tests.support.security_tables.secured_node import PASSWORDS, SCRAM_PASSWORDS, add_users
from tests.support.security_tables.tls_node import TlsNode, tls_node
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

TOPIC_KIND, READ, WRITE, ALLOW, DENY = 2, 3, 4, 3, 2
CREATE_TOKEN, DESCRIBE_TOKENS = 38, 41
EVERYTHING = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}

Program = Callable[[], AbstractContextManager[object]]


@pytest.fixture
def place(kafka: ApacheKafka, tmp_path: Path) -> TlsNode:
    return tls_node(kafka, tmp_path / "node")


def acl(name: str, operation: int, permission: int = ALLOW, *, pattern: int = 3) -> dict[str, object]:
    what = {"resource_type": TOPIC_KIND, "resource_name": name, "resource_pattern_type": pattern}
    return {**what, "principal": "User:alice", "host": "*", "operation": operation, "permission_type": permission}


def settle(place: TlsNode) -> str:
    """Everything that is to be kept: users, ACLs, quotas, a topic and a token of bob's, whose id is returned."""
    add_users(place.plain)
    alice = [{"entity_type": "user", "entity_name": "alice"}, {"entity_type": "client-id", "entity_name": None}]
    limits = [
        {"key": "producer_byte_rate", "value": 1024.0, "remove": False},
        {"key": "request_percentage", "value": 12.5, "remove": False},
    ]
    address = [{"entity_type": "ip", "entity_name": "10.0.0.7"}]
    rate = [{"key": "connection_creation_rate", "value": 3.0, "remove": False}]
    entries = [{"entity": alice, "ops": limits}, {"entity": address, "ops": rate}]
    acls = [acl("ord", WRITE, pattern=4), acl("secret", READ), acl("orders", READ, DENY)]
    with Administrator(place.plain) as administrator:
        administrator.make_topics()
        told = administrator.ask(30, 3, {"creations": acls})
        assert [each.error_code for each in told.results] == [0, 0, 0]
        quotas = administrator.ask(49, 1, {"entries": entries, "validate_only": False})
        assert [each.error_code for each in quotas.entries] == [0, 0], quotas
    own = {"owner_principal_type": "", "owner_principal_name": "", "renewers": [], "max_lifetime_ms": -1}
    with SaslTalk(place.sasl) as talk:
        talk.plain("bob", PASSWORDS["bob"])
        made = talk.ask(request(CREATE_TOKEN, own), 3)
        assert made.error_code == 0, made
    return str(made.token_id)


def kept(place: TlsNode) -> dict[str, Any]:
    """What the running program says of it all."""
    filtered = {**EVERYTHING, "resource_name_filter": None, "principal_filter": None, "host_filter": None}
    with Administrator(place.plain) as administrator:
        wait_until(lambda: bool(administrator.ask(29, 3, filtered).resources), "the ACLs are there")
        acls = administrator.ask(29, 3, filtered)
        quotas = administrator.ask(48, 1, {"components": [], "strict": False})
        users = administrator.ask(50, 0, {"users": None})
    with SaslTalk(place.sasl) as talk:
        talk.plain("bob", PASSWORDS["bob"])
        tokens = talk.ask(request(DESCRIBE_TOKENS, {"owners": None}), 3)
    return {
        "acls": sorted(
            (each.resource_name, each.pattern_type, one.principal, one.host, one.operation, one.permission_type)
            for each in acls.resources
            for one in each.acls
        ),
        "quotas": sorted(
            (str(sorted(str(part) for part in each.entity)), sorted((value.key, value.value) for value in each.values))
            for each in quotas.entries
        ),
        "users": sorted(
            (each.user, sorted((one.mechanism, one.iterations) for one in each.credential_infos))
            for each in users.results
        ),
        "tokens": [
            (each.token_id, bytes(each.hmac).hex(), each.principal_name, each.max_timestamp) for each in tokens.tokens
        ],
    }


def is_whole(found: dict[str, Any]) -> bool:
    return [len(found[name]) for name in ("acls", "quotas", "tokens")] == [3, 2, 1]


def decided(place: TlsNode) -> list[int]:
    """Alice by SCRAM: what she may write, read and see, as error codes; and that a wrong password is one."""
    offsets = [
        {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
        for name in ("orders", "secret", "doomed")
    ]
    fetched = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    fetch = {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1000,
        "topics": [{"topic": name, "partitions": fetched} for name in ("orders", "secret")],
    }
    with SaslTalk(place.sasl) as talk:
        assert talk.scram("SCRAM-SHA-512", "alice", SCRAM_PASSWORDS["alice"]).error_code == 0
        listed = talk.ask(request(2, {"replica_id": -1, "isolation_level": 0, "topics": offsets}), 7)
        read = talk.ask(request(1, {**fetch, "forgotten_topics_data": []}), 12)
    with SaslTalk(place.sasl) as talk:
        wrong = talk.scram("SCRAM-SHA-256", "alice", "wrong")
    return [
        *(each.partitions[0].error_code for each in sorted(listed.topics, key=lambda each: str(each.name))),
        *(each.partitions[0].error_code for each in sorted(read.responses, key=lambda each: str(each.topic))),
        wrong.error_code,
    ]


def logs_in_with_token(place: TlsNode, token_id: str, hmac: str) -> int:
    """The error code of a login with a delegation token."""
    password = base64.b64encode(bytes.fromhex(hmac)).decode()
    bare = f"n={token_id},r=rOprNGfwEbeRWgbNEkqO,tokenauth=true"
    with SaslTalk(place.sasl) as talk:
        talk.handshake("SCRAM-SHA-256")
        told = talk.authenticate(f"n,,{bare}".encode())
        if told.error_code:
            return int(told.error_code)
        final = scram_final("SCRAM-SHA-256", bare, bytes(told.auth_bytes).decode(), password)
        return int(talk.authenticate(final).error_code)


# orders: may be described by the prefix; secret: may be read; doomed: nothing. Then fetches, then the wrong password.
DECIDED = [29, 0, 0, 29, 0, 58]


@pytest.mark.parametrize("first", ["kafka", "tidelog"])
def test_users_acls_quotas_and_tokens_change_hands_and_back(place: TlsNode, first: str) -> None:
    ours: Program = TidelogNode(place.place).running
    theirs: Program = place.place.running
    order = [theirs, ours, theirs] if first == "kafka" else [ours, theirs, ours]
    if first == "kafka":
        place.place.format()

    with order[0]():
        token_id = settle(place)
        # A broker learns of what the controller has decided some time later.
        wait_until(lambda: is_whole(kept(place)), "all of it is there")
        before = kept(place)
        assert decided(place) == DECIDED
        hmac = str(before["tokens"][0][1])
        assert logs_in_with_token(place, token_id, hmac) == 0
    for program in order[1:]:
        with program():
            wait_until(lambda: is_whole(kept(place)), "all of it is there")
            assert kept(place) == before
            assert decided(place) == DECIDED
            assert logs_in_with_token(place, token_id, hmac) == 0
