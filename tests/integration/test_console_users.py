"""People log in to a console as users of the cluster, and may do what those users may."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.command_line import tidelog
from tests.support.console import Browser, running_console
from tidelog import Admin, Producer
from tidelog.client.admin import AclBinding, AclOperation, PermissionType, ResourceType
from tidelog.console.options import ClusterOptions
from tidelog.testing import EmbeddedCluster

PLAIN_LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(security="scram") as running:
        for topic in ("orders", "secret", "described"):
            running.create_topic(topic)
        with Producer(**running.client_options("admin")) as producer:
            for topic in ("orders", "secret", "described"):
                producer.send(topic, b"payload of " + topic.encode()).result()
        with Admin(**running.client_options("admin")) as admin:
            denied = [
                AclBinding(ResourceType.TOPIC, name, "User:alice", operation, PermissionType.DENY)
                for name, operation in (("secret", AclOperation.ALL), ("described", AclOperation.READ))
            ]
            assert set(admin.create_acls(denied).values()) == {None}
        yield running


@pytest.fixture(scope="module")
def console(cluster: EmbeddedCluster) -> Iterator[Browser]:
    with running_console(ClusterOptions("cluster", cluster.bootstrap_servers, PLAIN_LOGIN)) as browser:
        yield browser


def password_of(cluster: EmbeddedCluster, user: str) -> str:
    return str(cluster.librdkafka_properties(user)["sasl.password"])


def logged_in(console: Browser, cluster: EmbeddedCluster, user: str) -> Browser:
    browser = Browser(console.port).begin()
    answer = browser.log_in(user, password_of(cluster, user))
    assert answer.status == 200, answer
    assert answer.json["clusters"][0]["user"] == user
    return browser


def test_nobody_sees_anything_before_a_login(console: Browser) -> None:
    stranger = Browser(console.port).begin()
    [told] = stranger.ask("GET", "/api/session").json["clusters"]
    assert (told["needs_login"], told["user"], told["mechanisms"]) == (True, None, ["SCRAM-SHA-256"])
    for path in ("/overview", "/topics", "/topics/orders/records", "/xray/live?topic=orders", "/events", "/audit"):
        assert stranger.refused(path) == (401, "LOGIN_NEEDED"), path
    assert "orders" not in stranger.ask("GET", "/metrics").body.decode()
    assert stranger.ask("GET", "/api/audit").json == []


def test_a_wrong_password_is_refused_and_in_the_audit_without_it(console: Browser, cluster: EmbeddedCluster) -> None:
    browser = Browser(console.port).begin()
    answer = browser.log_in("alice", "guessed-secret")
    assert (answer.status, answer.json["error"]["code"]) == (401, "LOGIN_NEEDED")
    assert browser.refused("/topics") == (401, "LOGIN_NEEDED")
    assert browser.log_in("alice", "x", "SCRAM-SHA-512").json["error"]["code"] == "BAD_REQUEST"
    entries = logged_in(console, cluster, "admin").get("/audit")
    assert ("alice", "log in", "LOGIN_NEEDED") in {(each["user"], each["action"], each["result"]) for each in entries}
    assert "guessed-secret" not in json.dumps(entries)


def test_what_others_have_changed_is_for_those_who_may_describe_the_cluster(
    console: Browser, cluster: EmbeddedCluster
) -> None:
    alice, admin = logged_in(console, cluster, "alice"), logged_in(console, cluster, "admin")
    admin.change("PUT", "/topics/secret/configs", {"retention.ms": "86400000"})
    assert alice.refused("/topics/orders/partitions", {"count": 1}) == (403, "TOPIC_AUTHORIZATION_FAILED")
    assert "secret" in json.dumps(admin.get("/audit"))
    for entries in (alice.get("/audit"), alice.ask("GET", "/api/audit").json):
        assert "add partitions" in {each["action"] for each in entries}
        assert {each["user"] for each in entries} == {"alice"}
        assert "secret" not in json.dumps(entries)


def test_each_person_may_do_what_their_user_may(console: Browser, cluster: EmbeddedCluster) -> None:
    alice, admin = logged_in(console, cluster, "alice"), logged_in(console, cluster, "admin")
    assert [row["name"] for row in alice.get("/topics")["rows"]] == ["described", "orders"]
    assert [row["name"] for row in admin.get("/topics")["rows"]] == ["described", "orders", "secret"]
    assert alice.get("/topics/orders/records")["records"][0]["value"]["text"] == "payload of orders"
    assert alice.refused("/topics/secret/records") == (403, "TOPIC_AUTHORIZATION_FAILED")
    assert alice.refused("/topics/described/records") == (403, "TOPIC_AUTHORIZATION_FAILED")
    assert alice.refused("/acls") == (403, "CLUSTER_AUTHORIZATION_FAILED")
    assert len(admin.get("/acls")["rows"]) >= 2
    assert {"admin", "alice"} <= {row["user"] for row in admin.get("/users")["rows"]}


def test_what_nodes_tell_is_for_those_who_may_read_the_topic(console: Browser, cluster: EmbeddedCluster) -> None:
    alice, admin = logged_in(console, cluster, "alice"), logged_in(console, cluster, "admin")
    place = "topic=described&partition=0&offset=0"
    for path in (f"/xray/record?{place}", f"/xray/bytes?{place}"):
        assert alice.refused(path) == (403, "TOPIC_AUTHORIZATION_FAILED"), path
        assert admin.get(path)
    stream = alice.ask("GET", f"/api/c/cluster/xray/live?{place}").body
    assert stream.startswith(b"event: problem")
    assert b"TOPIC_AUTHORIZATION_FAILED" in stream
    found = admin.get("/xray/record?topic=orders&partition=0&offset=0")
    assert "payload" not in json.dumps(found)
    assert found["record"]["value_bytes"] == len(b"payload of orders")


def test_logging_out_ends_it(console: Browser, cluster: EmbeddedCluster) -> None:
    browser = logged_in(console, cluster, "alice")
    assert browser.get("/topics")["total"] == 2
    cookie = browser.headers["Cookie"]
    assert browser.ask("POST", "/api/session/cluster/logout", {}).status == 200
    assert browser.refused("/topics") == (401, "LOGIN_NEEDED")
    browser.headers["Cookie"] = cookie
    assert browser.refused("/topics") == (401, "LOGIN_NEEDED")


def test_no_answer_has_a_password(console: Browser, cluster: EmbeddedCluster) -> None:
    browser = logged_in(console, cluster, "admin")
    answers = [
        browser.ask("GET", path).body.decode()
        for path in ("/api/session", "/api/c/cluster/overview", "/api/c/cluster/users", "/api/audit", "/metrics")
    ]
    for user in ("alice", "admin"):
        assert password_of(cluster, user) not in "".join(answers)


def test_one_user_for_everybody_needs_no_login(cluster: EmbeddedCluster) -> None:
    login = dict(cluster.client_options("alice"))
    servers = str(login.pop("bootstrap_servers"))
    with running_console(ClusterOptions("cluster", servers, login, fixed_user="alice")) as browser:
        [told] = browser.begin().ask("GET", "/api/session").json["clusters"]
        assert (told["needs_login"], told["user"]) == (False, "alice")
        assert browser.get("/topics")["total"] == 2
        assert browser.refused("/topics/secret/records") == (403, "TOPIC_AUTHORIZATION_FAILED")


def test_a_stream_ends_when_the_right_to_read_is_taken_away(console: Browser, cluster: EmbeddedCluster) -> None:
    cluster.create_topic("taken")
    alice = logged_in(console, cluster, "alice")
    with alice.events("/xray/live?topic=taken&partition=0") as events:
        assert next(name for name, _ in events if name != "source") == "state"
        with Admin(**cluster.client_options("admin")) as admin:
            denied = AclBinding(ResourceType.TOPIC, "taken", "User:alice", AclOperation.READ, PermissionType.DENY)
            assert set(admin.create_acls([denied]).values()) == {None}
        *_, (name, told) = events
        assert (name, told["error"]["code"]) == ("problem", "TOPIC_AUTHORIZATION_FAILED")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=alice",
          "-X", "sasl.password=hidden-secret"], "say so with --as alice"),
        (["--as", "alice"], "needs the login of alice"),
        (["--cluster", "east"], "is no pair"),
        (["--cluster-config", "west=f"], "which no --cluster does"),
        (["--trace", "one=http://127.0.0.1:1"], "is no node and its endpoint"),
        (["--tls-key", "key.pem"], "--tls-cert is not"),
        (["--bootstrap", "a:b:c"], "is not the address of a node"),
    ],
)  # fmt: skip
def test_a_command_line_that_makes_no_sense_is_refused_in_a_sentence(arguments: list[str], sentence: str) -> None:
    ended = tidelog("console", "--port", "0", *arguments)
    assert ended.exit_code == 2, ended
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "hidden-secret" not in ended.stderr
