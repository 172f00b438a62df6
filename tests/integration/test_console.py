"""A console over real HTTP, in front of an embedded cluster."""

from __future__ import annotations

import base64
import http.client
import io
import json
import signal
import time
from collections.abc import Iterator

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.support.command_process import CommandProcess
from tests.support.console import Browser, path_of, running_console
from tests.support.consumer_scenarios import wait_for
from tests.support.schema_registry import schema_registry
from tidelog import Admin, Consumer, Producer
from tidelog.console.options import ClusterOptions
from tidelog.console.screens import ROUTES
from tidelog.spark.formats.registry_framing import frame, protobuf_frame
from tidelog.spark.sink.audit_entry import AuditEntry, PartitionRange, SinkAudit, encode_audit, encode_audit_key
from tidelog.spark.sink.sink_decisions import AUDIT_TOPIC
from tidelog.testing import EmbeddedCluster

RECORDS = 300
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        running.create_topic("orders", partitions=3)
        with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
            for number in range(RECORDS):
                value = json.dumps({"id": number}).encode()
                producer.send(
                    "orders", value, key=b"k%d" % number, partition=number % 3, headers=[("n", b"%d" % number)]
                )
            producer.flush()
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.alter_group_offsets("billing", {("orders", 0): 100, ("orders", 1): 40})
        yield running


@pytest.fixture(scope="module")
def browser(cluster: EmbeddedCluster) -> Iterator[Browser]:
    with running_console(ClusterOptions("cluster", cluster.bootstrap_servers, {})) as found:
        yield found.begin()


# What is there.


def test_the_overview_tells_nodes_quorum_and_counts(browser: Browser, cluster: EmbeddedCluster) -> None:
    found = browser.get("/overview")
    assert found["cluster_id"] == cluster.cluster_id
    assert [node["id"] for node in found["nodes"]] == [1]
    assert found["nodes"][0]["is_controller"]
    assert found["quorum"]["leader_id"] == 1
    assert found["counts"]["under_replicated"] == found["counts"]["offline"] == found["counts"]["under_min_isr"] == 0
    assert found["counts"]["groups"] >= 1
    assert found["problems"] == {}


def test_topics_are_searched_sorted_and_paged(browser: Browser, cluster: EmbeddedCluster) -> None:
    for name in ("paged-a", "paged-b", "paged-c"):
        cluster.create_topic(name, partitions=1)
    wait_for(lambda: browser.get("/topics?search=PAGED")["total"] == 3, "the console sees the new topics")
    page = browser.get("/topics?search=paged&sort=name&desc=1&offset=1&limit=1")
    assert (page["total"], [row["name"] for row in page["rows"]]) == (3, ["paged-b"])
    assert browser.refused("/topics?sort=beauty") == (400, "BAD_REQUEST")
    assert browser.refused("/topics?limit=100000") == (400, "BAD_REQUEST")


def test_a_topic_tells_its_partitions_configuration_and_readers(browser: Browser) -> None:
    wait_for(lambda: browser.get("/topics/orders")["groups"] != [], "the group is sampled")
    found = browser.get("/topics/orders")
    assert [(each["log_start"], each["hw"], each["lso"]) for each in found["partitions"]] == [(0, 100, 100)] * 3
    configs = {each["name"]: each for each in found["configs"]}
    assert configs["retention.ms"]["doc"]
    assert configs["retention.ms"]["default"] == configs["retention.ms"]["value"]
    assert found["groups"][0]["group"] == "billing"
    assert browser.refused("/topics/nowhere") == (404, "UNKNOWN_TOPIC_OR_PARTITION")


# Records.


def test_pages_of_records_lead_from_the_first_to_the_last(browser: Browser) -> None:
    start, seen = "earliest", []
    for _ in range(10):
        page = browser.get(f"/topics/orders/records?partition=0,2&from={start}&limit=90")
        seen += [(each["partition"], each["offset"]) for each in page["records"]]
        if page["at_end"]:
            break
        start = ",".join(f"{partition}@{offset}" for partition, offset in page["next"].items())
    assert sorted(seen) == [(partition, offset) for partition in (0, 2) for offset in range(100)]
    assert len(seen) == len(set(seen))


def test_records_are_found_by_offset_by_time_and_from_the_end(browser: Browser) -> None:
    [record] = browser.get("/topics/orders/records?partition=1&from=offset:40&limit=1")["records"]
    assert (record["offset"], record["value"]["format"], json.loads(record["value"]["text"])) == (
        40,
        "json",
        {"id": 121},
    )
    assert record["headers"] == [["n", {"format": "text", "text": "121", "bytes": 3, "truncated": False}]]
    newest = browser.get("/topics/orders/records?partition=1&limit=5")
    assert [each["offset"] for each in newest["records"]] == [95, 96, 97, 98, 99]
    assert newest["at_end"]
    later = browser.get(f"/topics/orders/records?from=time:{int(time.time() * 1000) + 60_000}")
    assert later["records"] == []
    assert later["at_end"]
    assert browser.refused("/topics/orders/records?from=yesterday") == (400, "BAD_REQUEST")
    assert browser.refused("/topics/orders/records?partition=7") == (404, "NOT_FOUND")
    assert browser.refused("/topics/orders/record?partition=0&offset=100") == (404, "NOT_FOUND")


def test_a_search_tells_how_much_it_has_searched_and_goes_on(browser: Browser) -> None:
    with browser.events("/topics/orders/search?q=%22id%22:%2012&in=value&limit=5") as events:
        found = list(events)
    hits = [each for name, each in found if name == "hit"]
    assert len(hits) == 5
    assert found[-1][0] == "done"
    assert not found[-1][1]["complete"]
    rest = ",".join(f"{partition}@{offset}" for partition, offset in found[-1][1]["next"].items())
    with browser.events(f"/topics/orders/search?q=%22id%22:%2012&in=value&from={rest}") as events:
        last = list(events)
    assert last[-1][1]["complete"]
    found_ids = [json.loads(each["value"]["text"])["id"] for name, each in [*found, *last] if name == "hit"]
    assert sorted(found_ids) == [12, *range(120, 130)]
    with browser.events("/topics/orders/search?q=^k12.$&in=key&regex=1") as events:
        by_key = list(events)
    assert sum(name == "hit" for name, _ in by_key) == 10
    progress = [each for name, each in by_key if name == "progress"][-1]
    assert (progress["searched"], progress["of"]) == (RECORDS, RECORDS)
    assert browser.ask("GET", "/api/c/cluster/topics/orders/search?q=(&regex=1").body.startswith(b"event: problem")


def test_the_live_tail_shows_what_comes_and_counts_it(browser: Browser, cluster: EmbeddedCluster) -> None:
    cluster.create_topic("live")
    with (
        browser.events("/topics/live/tail") as events,
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        name, first = next(events)
        assert (name, first["seen"]) == ("records", 0)
        for number in range(3_000):
            producer.send("live", b"%d" % number)
        producer.flush()
        seen = shown = 0
        while seen < 3_000:
            name, each = next(events)
            assert name == "records"
            seen, shown = seen + each["seen"], shown + each["shown"]
            assert each["shown"] == len(each["records"]) <= 25
    assert seen == 3_000
    assert 0 < shown < 3_000


def test_records_are_exported_as_json_csv_and_parquet(browser: Browser) -> None:
    as_json = browser.ask("GET", "/api/c/cluster/topics/orders/export?format=json&partition=0&limit=10")
    assert [json.loads(line)["offset"] for line in as_json.body.splitlines()] == list(range(10))
    assert as_json.headers["content-disposition"] == 'attachment; filename="orders.json"'
    as_csv = browser.ask("GET", "/api/c/cluster/topics/orders/export?format=csv&partition=0&limit=10").body.splitlines()
    assert len(as_csv) == 11
    parquet = browser.ask("GET", "/api/c/cluster/topics/orders/export?format=parquet&limit=1000").body
    table = pq.read_table(io.BytesIO(parquet))
    assert table.num_rows == RECORDS
    assert {json.loads(each)["id"] for each in table["value"].to_pylist() if each} == set(range(RECORDS))


def test_a_record_is_planned_then_written_and_never_markup(browser: Browser, cluster: EmbeddedCluster) -> None:
    cluster.create_topic("written", partitions=4)
    record = {"key": "k", "value": SCRIPT, "headers": [["h", None]]}
    plan = browser.change("POST", "/topics/written/records", {**record, "dry_run": True})
    assert not plan["applied"]
    written = browser.change("POST", "/topics/written/records", record)
    assert (written["partition"], written["offset"]) == (plan["plan"]["partition"], 0)
    answer = browser.ask("GET", f"/api/c/cluster/topics/written/record?partition={written['partition']}&offset=0")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json["value"]["text"] == SCRIPT
    raw = {"value": base64.b64encode(b"\x00\xff").decode(), "value_format": "base64", "partition": 3}
    assert browser.change("POST", "/topics/written/records", raw)["partition"] == 3
    [shown] = browser.get("/topics/written/records?partition=3")["records"]
    assert (shown["key"], shown["value"]["format"], shown["value"]["text"]) == (None, "hex", "00ff")
    wrong = {"value": "zz", "value_format": "hex"}
    assert browser.refused("/topics/written/records", wrong) == (400, "BAD_REQUEST")


# Changes.


def test_a_topic_is_made_changed_and_deleted_and_each_change_is_in_the_audit(browser: Browser) -> None:
    new = {"name": "made", "partitions": 2, "replication": 1, "configs": {"retention.ms": "1000"}}
    assert not browser.change("POST", "/topics", {**new, "dry_run": True})["applied"]
    assert browser.refused("/topics/made") == (404, "UNKNOWN_TOPIC_OR_PARTITION")
    assert browser.change("POST", "/topics", new)["applied"]
    assert browser.refused("/topics", new) == (409, "TOPIC_ALREADY_EXISTS")
    assert browser.change("POST", "/topics/made/partitions", {"count": 4})["from"] == 2
    changed = browser.change("PUT", "/topics/made/configs", {"retention.ms": None})
    assert changed["plan"] == [{"name": "retention.ms", "from": "1000", "to": None}]
    browser.change("DELETE", "/topics/made")
    assert browser.refused("/topics/made") == (404, "UNKNOWN_TOPIC_OR_PARTITION")
    actions = [(each["action"], each["result"]) for each in browser.get("/audit") if "made" in each["what"]]
    assert actions == [
        ("delete topic", "done"),
        ("alter topic configuration", "done"),
        ("add partitions", "done"),
        ("create topic", "TOPIC_ALREADY_EXISTS"),
        ("create topic", "done"),
    ]


# Groups.


def test_a_group_tells_its_lag_and_why(browser: Browser) -> None:
    found = browser.get("/groups/billing")
    lags = {each["partition"]: each["lag"] for each in found["partitions"]}
    assert (found["lag"], lags[0], lags[1]) == (sum(lags.values()), 0, 60)
    assert found["why"][0].startswith("Stopped: the group has no members")
    wait_for(lambda: browser.get("/groups/billing")["lag_seconds"] is not None, "the age of the next record is found")
    [row] = browser.get("/groups?search=bill&type=classic")["rows"]
    assert (row["lag"], row["members"]) == (found["lag"], 0)
    wait_for(lambda: len(browser.get("/groups/billing/lag")["t"]) > 1, "two samples")
    history = browser.get("/groups/billing/lag?minutes=5")
    assert history["lag"][-1] == found["lag"]
    assert browser.refused("/groups/nobody") == (404, "GROUP_ID_NOT_FOUND")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_told_with_how_many_members_they_have(
    browser: Browser, cluster: EmbeddedCluster, protocol: str
) -> None:
    group = f"team/{protocol}"
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": group, "group_protocol": protocol}
    with Consumer("orders", **settings) as consumer:
        consumer.poll(timeout_ms=10_000, max_records=1)
        wait_for(
            lambda: [row["members"] for row in browser.get(f"/groups?search={group}")["rows"]] == [1], "it has a member"
        )
        [row] = browser.get("/groups?sort=members&desc=1&limit=1")["rows"]
        assert row["members"] == 1
        found = browser.get(f"/groups/{path_of(group)}")
        assert (found["type"], found["members"][0]["assignment"]) == (protocol, {"orders": [0, 1, 2]})
        assert browser.get(f"/groups/{path_of(group)}/lag")["t"]


def test_an_open_transaction_is_named_as_what_holds_a_group(browser: Browser, cluster: EmbeddedCluster) -> None:
    cluster.create_topic("held")
    with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="payments-1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("held", b"1").result()
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.alter_group_offsets("waiting", {("held", 0): 0})
        found = browser.get("/groups/waiting")
        [partition] = found["partitions"]
        assert (partition["end"], partition["lso"]) == (1, 0)
        assert "transactional id payments-1" in partition["why"][0]
        [row] = browser.get("/transactions?state=ongoing")["rows"]
        assert (row["transactional_id"], row["partitions"]) == ("payments-1", ["held-0"])
        assert not browser.change("POST", "/transactions/payments-1/abort", {"dry_run": True})["applied"]
        assert browser.change("POST", "/transactions/payments-1/abort", {})["applied"]
        wait_for(lambda: browser.get("/topics/held")["partitions"][0]["lso"] == 2, "the transaction is aborted")
        assert browser.refused("/transactions/payments-1/abort", {}) == (409, "INVALID_TXN_STATE")
        producer.close(timeout_ms=0)


def test_offsets_are_changed_after_the_plan_was_shown(browser: Browser, cluster: EmbeddedCluster) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_group_offsets("moved", {("orders", each): 50 for each in range(3)})
        ask = {"to": "shift", "value": -10, "topic": "orders", "partitions": [0, 2]}
        planned = browser.change("POST", "/groups/moved/offsets", {**ask, "dry_run": True})
        assert [(each["partition"], each["from"], each["to"]) for each in planned["plan"]] == [(0, 50, 40), (2, 50, 40)]
        assert admin.list_group_offsets("moved")[("orders", 0)].offset == 50  # type: ignore[index]
        assert browser.change("POST", "/groups/moved/offsets", ask)["applied"]
        offsets = {partition.partition: each.offset for partition, each in admin.list_group_offsets("moved").items()}
        assert offsets == {0: 40, 1: 50, 2: 40}
        latest = browser.change("POST", "/groups/moved/offsets", {"to": "latest", "topic": "orders", "dry_run": True})
        assert {each["to"] for each in latest["plan"]} == {100}
        assert browser.refused("/groups/moved/offsets", {"to": "nowhere", "topic": "orders"}) == (400, "BAD_REQUEST")
        with Consumer("orders", bootstrap_servers=cluster.bootstrap_servers, group_id="moved") as consumer:
            consumer.poll(timeout_ms=10_000, max_records=1)
            assert browser.refused("/groups/moved/offsets", ask) == (409, "NON_EMPTY_GROUP")
        browser.change("DELETE", "/groups/moved")
        assert browser.refused("/groups/moved") == (404, "GROUP_ID_NOT_FOUND")


# The rest of the cluster.


def test_disks_reassignments_quotas_and_users_are_listed(browser: Browser, cluster: EmbeddedCluster) -> None:
    [disk] = browser.get("/logdirs")
    assert (disk["node"], disk["error"]) == (1, None)
    assert disk["bytes"] > 0
    assert browser.get("/reassignments") == {"total": 0, "rows": []}
    assert browser.get("/users") == {"total": 0, "rows": []}
    assert browser.get("/quotas") == {"total": 0, "rows": []}
    assert browser.get("/pipelines") == []
    assert browser.refused("/acls") == (409, "SECURITY_DISABLED")


def test_lag_is_in_the_metrics_in_records_and_in_seconds(browser: Browser) -> None:
    def text() -> str:
        return browser.ask("GET", "/metrics").body.decode()

    labels = '{cluster="cluster",group="billing",topic="orders",partition="1"}'
    wait_for(lambda: f"kafka_consumergroup_lag_seconds{labels}" in text(), "the lag in seconds is known")
    assert f"kafka_consumergroup_lag{labels} 60\n" in text()


def test_events_follow_the_overview_and_topics_that_come(browser: Browser, cluster: EmbeddedCluster) -> None:
    with browser.events("/events") as events:
        assert next(events)[0] == "overview"
        cluster.create_topic("came")
        for name, each in events:
            if name == "topics":
                assert "came" in each["come"]
                break


# Who may ask.


def test_a_console_answers_under_its_own_names_alone(browser: Browser) -> None:
    for host in ("evil.example", "evil.example:80", "", "localhost.evil.example"):
        assert browser.ask("GET", "/api/session", Host=host).json["error"]["code"] == "WRONG_HOST", host
    for host in ("localhost:1", "127.0.0.1", "[::1]:8080", "LOCALHOST"):
        assert browser.ask("GET", "/api/c/cluster/audit", Host=host).status == 200, host


def test_no_other_site_can_ask_or_change(browser: Browser) -> None:
    path = "/api/c/cluster/topics"
    assert browser.ask("GET", path, **{"Sec-Fetch-Site": "cross-site"}).status == 403
    for origin in ("http://evil.example", "null", "http://["):
        assert browser.ask("POST", path, {"name": "stolen"}, Origin=origin).status == 403, origin
    assert browser.ask("POST", path, {"name": "stolen"}, **{"X-Tidelog-Console": "guessed"}).json["error"]["code"] == (
        "CSRF_TOKEN_MISSING"
    )
    stranger = Browser(browser.port)
    assert stranger.ask("DELETE", f"{path}/orders").json["error"]["code"] == "CSRF_TOKEN_MISSING"
    cookie = browser.ask("GET", "/api/session").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "default-src 'none'" in browser.ask("GET", "/api/session").headers["content-security-policy"]


def test_a_read_only_console_changes_nothing(cluster: EmbeddedCluster) -> None:
    with running_console(ClusterOptions("cluster", cluster.bootstrap_servers, {}), is_read_only=True) as found:
        found.begin()
        changes = [(method, each.path) for each in ROUTES for method in (each.methods or set()) - {"GET", "HEAD"}]
        assert len(changes) >= 12
        for method, path in changes:
            asked = path.partition("{cluster}")[2].replace(":path", "").replace("{topic}", "orders")
            assert found.refused(asked, {"name": "never"}, method=method) == (409, "READ_ONLY"), asked
        assert found.get("/topics/orders")["name"] == "orders"


def test_one_console_shows_several_clusters(cluster: EmbeddedCluster) -> None:
    with (
        EmbeddedCluster() as other,
        running_console(
            ClusterOptions("east", cluster.bootstrap_servers, {}), ClusterOptions("west", other.bootstrap_servers, {})
        ) as found,
    ):
        assert [each["name"] for each in found.begin().ask("GET", "/api/session").json["clusters"]] == ["east", "west"]
        ids = [found.ask("GET", f"/api/c/{name}/overview").json["cluster_id"] for name in ("east", "west")]
        assert ids == [cluster.cluster_id, other.cluster_id]


def test_wrong_paths_bodies_and_clusters_are_told_in_a_sentence(browser: Browser) -> None:
    assert browser.ask("GET", "/api/nothing").json["error"]["code"] == "NOT_FOUND"
    assert browser.ask("GET", "/api/c/elsewhere/topics").json["error"]["message"].endswith("no cluster 'elsewhere'")
    assert (
        browser.ask("POST", "/api/c/cluster/topics", [1]).json["error"]["message"]
        == "the body of the request is no JSON object"
    )
    assert browser.ask("GET", "/../../etc/passwd").status == 404


def test_whatever_somebody_sends_is_refused_in_a_sentence(browser: Browser) -> None:
    nested = b"[" * 100_000 + b"]" * 100_000
    changes = [(method, each.path) for each in ROUTES for method in (each.methods or set()) - {"GET", "HEAD"}]
    connection = http.client.HTTPConnection("127.0.0.1", browser.port, timeout=30)
    for method, path in [*changes, ("POST", "/api/session/{cluster}/login")]:
        if method == "DELETE":
            continue
        asked = path.replace("{cluster}", "cluster").replace(":path", "").replace("{topic}", "orders")
        connection.request(method, asked, nested, browser.headers)
        response = connection.getresponse()
        error = json.loads(response.read())["error"]
        assert 400 <= response.status < 500, (path, error)
        assert error["message"]
    connection.close()
    long = "a" * 40_000
    assert browser.refused(f"/topics/{long}") == (400, "BAD_REQUEST")
    assert browser.refused(f"/groups/{long}") == (400, "BAD_REQUEST")
    assert browser.refused(f"/transactions/{long}") == (400, "BAD_REQUEST")
    assert browser.refused("/topics", {"name": "new", "replication": 70_000, "dry_run": True}) == (400, "BAD_REQUEST")
    offsets = {"topic": "orders", "dry_run": True}
    for wrong in ({"to": "time", "value": 10**25}, {"to": "latest", "partitions": [True]}, {"to": ["latest"]}):
        assert browser.refused("/groups/billing/offsets", {**offsets, **wrong}) == (400, "BAD_REQUEST"), wrong


def test_a_cluster_that_is_down_is_told_and_the_console_stays() -> None:
    with running_console(ClusterOptions("gone", "127.0.0.1:1", {"reconnect_backoff_ms": 1})) as found:
        found.begin()
        assert found.refused("/topics") == (504, "NETWORK_EXCEPTION")
        assert found.ask("GET", "/api/session").status == 200


def test_a_console_ends_without_a_word_while_pages_are_open(cluster: EmbeddedCluster) -> None:
    arguments = ("console", "--port", "0", "--bootstrap", cluster.bootstrap_servers, "--name", "cluster")
    with CommandProcess(*arguments) as running:
        found = Browser(int(running.ready_line().split()[1].rstrip("/").rpartition(":")[2]))
        with found.events("/events") as events:
            assert next(events)[0] == "overview"
            running.send(signal.SIGINT)
            assert running.end() == (0, "")


# By a schema registry, and by the accounts of pipelines.


def test_framed_values_are_shown_by_their_schemas(cluster: EmbeddedCluster) -> None:
    order = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
    }
    proto = 'syntax = "proto3"; message Other { int32 n = 1; } message Order { string who = 1; }'
    avro = io.BytesIO()
    fastavro.schemaless_writer(avro, fastavro.parse_schema(order), {"id": 7, "who": "alice"})
    cluster.create_topic("framed")
    with schema_registry() as registry:
        avro_id = registry.add("framed-value", order)
        proto_id = registry.add("framed-proto", proto, "PROTOBUF")
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for value in (
                frame(avro_id) + avro.getvalue(),
                protobuf_frame(proto_id, [1]) + b"\x0a\x03bob",
                frame(4711) + b"of another registry",
            ):
                producer.send("framed", value).result()
        options = ClusterOptions("cluster", cluster.bootstrap_servers, {}, registry=registry.url)
        with running_console(options) as found:
            values = [each["value"] for each in found.begin().get("/topics/framed/records?from=earliest")["records"]]
            asked = found.get("/topics/framed/records?from=earliest&format=avro")["records"]
    assert [each["format"] for each in values] == ["avro", "protobuf", "hex"]
    assert json.loads(values[0]["text"]) == {"id": 7, "who": "alice"}
    assert json.loads(values[1]["text"]) == {"who": "bob"}
    assert "PROTOBUF" in asked[1]["value"]["problem"]
    assert asked[2]["value"]["problem"]


def test_a_pipeline_is_told_by_its_account(browser: Browser, cluster: EmbeddedCluster) -> None:
    cluster.create_topic(AUDIT_TOPIC, partitions=1)
    cluster.create_topic("letters")
    letter = [("tidelog.dead-letter.pipeline", b"revenue"), ("tidelog.dead-letter.topic", b"orders")]
    now_ms = int(time.time() * 1000)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("letters", b"broken", headers=letter).result()
        for batch in range(3):
            end = 30 * (batch + 1)
            letters = SinkAudit("letters", "topic", "letters", 1, 0, (PartitionRange("letters", 0, 0, 1),))
            sinks = (SinkAudit("out", "topic", "revenue", 29, 0), letters)
            read = (PartitionRange("orders", 0, end - 30, end),)
            entry = AuditEntry(
                "revenue", "q-1", "r", batch, read, None, sinks, "v1", now_ms, now_ms, now_ms + 1000 * batch
            )
            producer.send(AUDIT_TOPIC, encode_audit(entry), key=encode_audit_key(entry)).result()
    wait_for(lambda: browser.get("/pipelines") != [], "the account is found")
    [row] = browser.get("/pipelines")
    assert (row["name"], row["batches"], row["lag"], row["dead_letters"]) == ("revenue", 3, 10, 3)
    assert row["state"] == "finishes batches"
    assert [each["rows"] for each in row["history"]] == [30, 30, 30]
    found = browser.get("/xray/record?topic=orders&partition=0&offset=42")
    assert [(each["pipeline"], each["batch"], each["read"]) for each in found["spark"]] == [("revenue", 1, True)]
