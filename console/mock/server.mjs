// A cluster that is not there: the console's API with made-up answers, to work on the screens without one.
//
//     node mock/server.mjs [PORT]      then http://127.0.0.1:PORT, or `npx vite` beside it for a page that reloads by itself
//
// MOCK_TOPICS and MOCK_GROUPS in the environment say how many there are.
import { createServer } from "node:http";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const port = Number(process.argv[2] ?? 8787);
const built = new URL("../../src/tidelog/console/static/", import.meta.url);
const TYPES = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const topicsWanted = Number(process.env.MOCK_TOPICS ?? 24);
const groupsWanted = Number(process.env.MOCK_GROUPS ?? 9);
const began = Date.now();

const NAMES = ["orders", "payments", "shipments", "accounts", "clicks", "inventory", "audit", "returns"];
const topics = Array.from({ length: topicsWanted }, (_, i) => ({
  name: i < NAMES.length ? NAMES[i] : `${NAMES[i % NAMES.length]}.v${Math.floor(i / NAMES.length) + 1}`,
  id: `mock-${String(i).padStart(6, "0")}`, internal: false, partitions: i % 3 === 0 ? 6 : 3, replication: 3, bytes: 1e6 * ((i * 37) % 91) + 4096,
  records: 1000 * ((i * 53) % 97) + 12, under_replicated: i % 17 === 5 ? 1 : 0, offline: 0, rate: (i * 31) % 400,
}));
const groups = Array.from({ length: groupsWanted }, (_, i) => ({
  group: i < 4 ? ["billing", "fraud", "search-index", "reports"][i] : `team-${i % 40}-reader-${i}`, type: ["classic", "consumer", "share"][i % 3], protocol: "consumer",
  state: i % 5 === 3 ? "Empty" : "Stable", members: i % 5 === 3 ? 0 : 1 + (i % 4), lag: (i * 137) % 5000, lag_seconds: i % 7 === 6 ? null : ((i * 137) % 5000) / 40, coordinator: 1 + (i % 3),
}));

const nodes = () => [1, 2, 3].map((id) => ({
  id, host: "127.0.0.1", port: 9091 + id, rack: null, fenced: false, is_controller: id === 1, leaders: 40 + id, replicas: 130, under_replicated: id === 3 ? 1 : 0, log_bytes: 2.4e9 + id * 1e8, traced: true, http: `127.0.0.1:${9600 + id}`,
}));
const quorum = () => ({ leader_id: 1, leader_epoch: 4, high_watermark: 18233, voters: [1, 2, 3].map((id) => ({ id, log_end_offset: 18234 - (id === 3 ? 2 : 0), lag: id === 3 ? 2 : 0, last_caught_up_ms_ago: id === 1 ? null : 120 * id })), observers: [] });
const overview = () => ({
  cluster_id: "Hm1wAqkBTd2n3Xk0dJq4gA", controller_id: 1, software: "Tidelog 0.1.0", nodes: nodes(), quorum: quorum(),
  counts: { topics: topics.length, partitions: topics.length * 4, under_replicated: 1, offline: 0, under_min_isr: 0, groups: groups.length },
  rates: { bytes_in: 1.2e6 + 2e5 * Math.sin(Date.now() / 9000), records_in: 4200 + 700 * Math.sin(Date.now() / 9000) },
});
function history(names) {
  const now = Math.floor(Date.now() / 1000);
  const t = Array.from({ length: 180 }, (_, i) => now - 2 * (180 - i));
  const wave = (scale) => t.map((at, i) => (i > 60 && i < 66 ? null : scale * (1 + 0.3 * Math.sin(at / 40) + 0.08 * Math.sin(at * 1.7))));
  return { t, series: Object.fromEntries(names.map((name) => [name, wave(name === "bytes_in" ? 1.2e6 : 4200)])) };
}

// One partition that lives: a record every second or two, with followers, a consumer and its commits.
const log = { leo: 128, hw: 128, lso: 128, isr: [1, 2, 3], leader: 1, position: 9216, listeners: new Set() };
function emit(events) {
  for (const send of log.listeners) send("events", { events });
}
let clock = 1_000_000;
function event(type, node, after, fields = {}) {
  clock += after;
  return { type, node, boot: "mock", seq: clock, at_us: clock, uncertainty_us: node === log.leader ? 0 : 40, wall_ms: Date.now(), sentence: `node ${node}: ${said(type, fields)}`, ...fields };
}
function said(type, fields) {
  const told = { appended: `appended offset ${fields.base_offset} to ${fields.file} at byte ${fields.position}; the log ends at ${fields.leo}`, hw_moved: `the high watermark is ${fields.hw}, moved by the fetch of node ${fields.by}`, produce_received: `client ${fields.client_id} has sent ${fields.records} records, acks=all`, follower_fetch: `node ${fields.replica} asks from offset ${fields.fetch_offset} on, and so has everything before`, follower_fetch_answered: `answered node ${fields.replica} from offset ${fields.from_offset} up to ${fields.to_offset}`, fetch_answered: `client ${fields.client_id} was given records from offset ${fields.from_offset} up to ${fields.to_offset}`, offset_committed: `client ${fields.client_id} has committed offset ${fields.offset}` };
  return told[type] ?? type.replaceAll("_", " ");
}
function append(records = 1, client = "checkout-1") {
  const base = log.leo;
  const last = base + records - 1;
  const batch = { base_offset: base, last_offset: last, leader_epoch: 3, file: "00000000000000000000.log", position: log.position, size: 61 + 40 * records, records, producer_id: 4001, producer_epoch: 0, base_sequence: base, is_transactional: false };
  log.position += batch.size;
  log.leo = last + 1;
  clock = Math.max(clock, Math.floor((Date.now() - began) * 1000) + 1_000_000);
  const followers = [2, 3].filter((node) => log.isr.includes(node));
  const events = [
    event("produce_received", 1, 0, { client_id: client, correlation_id: base, producer_id: 4001, producer_epoch: 0, base_sequence: base, acks: -1, bytes: batch.size, records }),
    event("appended", 1, 84, { by: "leader", leo: log.leo, ...batch }),
    ...followers.flatMap((node, i) => [
      event("follower_fetch_answered", 1, 60 + 40 * i, { replica: node, from_offset: base, to_offset: log.leo, bytes: batch.size }),
      event("appended", node, 190, { by: "follower", leo: log.leo, ...batch }),
    ]),
    ...followers.map((node) => event("follower_fetch", 1, 140, { replica: node, fetch_offset: log.leo })),
    event("hw_moved", 1, 12, { hw: log.leo, by: 3 }),
    event("produce_answered", 1, 31, { client_id: client, correlation_id: base, base_offset: base, error: "NONE" }),
    event("fetch_answered", 1, 96, { client_id: "billing-0", group: "billing", correlation_id: base, from_offset: base, to_offset: log.leo, bytes: batch.size, isolation: "read_uncommitted" }),
    event("offset_committed", 2, 41000, { group: "billing", topic: "orders", partition: 0, offset: log.leo, client_id: "billing-0" }),
  ];
  events.splice(-3, 0, event("lso_moved", 1, 0, { lso: log.leo }));
  log.hw = log.lso = log.leo;
  emit(events);
  return base;
}
setInterval(() => append(1 + Math.floor(Math.random() * 2.4)), 2600).unref();

const D = (text, format = "text") => ({ format, text, bytes: text.length, truncated: false });
const record = (offset, partition = 0) => ({
  partition, offset, timestamp_ms: began - 60000 + offset * 900, timestamp_type: "CreateTime", leader_epoch: 3, key: D(`customer-${offset % 12}`),
  value: D(JSON.stringify({ order: offset, item: ["apples", "pears", "<script>alert(1)</script>"][offset % 3], amount: offset % 9, paid: offset % 2 === 0 }), "json"), headers: [["trace", D(`span-${offset}`)]], size: 118,
});
function hexOf(offset) {
  const bytes = [];
  const field = [];
  const put = (name, values, value, meaning) => {
    field.push({ name, start: bytes.length, end: bytes.length + values.length, value, meaning });
    bytes.push(...values);
  };
  const be = (value, size) => Array.from({ length: size }, (_, i) => Number((BigInt.asUintN(64, BigInt(value)) >> BigInt(8 * (size - 1 - i))) & 255n));
  put("base_offset", be(offset, 8), offset, "The offset of its first record.");
  put("batch_length", be(95, 4), 95, "Bytes that follow.");
  put("partition_leader_epoch", be(3, 4), 3, "The leader's epoch when it was appended.");
  put("magic", be(2, 1), 2, "The format of the batch.");
  put("crc", be(0x9a3c51ee, 4), 0x9a3c51ee, "CRC-32C of all that follows.");
  put("attributes", be(0, 2), 0, "No compression, CreateTime, no transaction.");
  put("last_offset_delta", be(0, 4), 0, "The last record's offset, from the first.");
  put("base_timestamp", be(began, 8), began, "Of its first record, in ms.");
  put("max_timestamp", be(began, 8), began, "The largest of its records.");
  put("producer_id", be(4001, 8), 4001, "Who wrote it.");
  put("producer_epoch", be(0, 2), 0, "Which life of that producer.");
  put("base_sequence", be(offset, 4), offset, "Of its first record; duplicates are told by it.");
  put("record_count", be(1, 4), 1, "Records in the batch.");
  const value = [...new TextEncoder().encode(record(offset).value.text)];
  put("record 0 length", [0x72], 57, "A varint.");
  put("record 0 key", [...new TextEncoder().encode(`customer-${offset % 12}`)], `customer-${offset % 12}`, "");
  put("record 0 value", value, record(offset).value.text, "");
  return { hex: bytes.map((one) => one.toString(16).padStart(2, "0")).join(""), fields: field };
}

function page(rows, query) {
  const search = query.get("search") ?? "";
  const sort = query.get("sort");
  let found = rows.filter((row) => (row.name ?? row.group).includes(search) && (query.get("only") !== "under_replicated" || row.under_replicated));
  if (sort) found = found.toSorted((a, b) => (a[sort] > b[sort] ? 1 : a[sort] < b[sort] ? -1 : 0) * (query.get("desc") === "1" ? -1 : 1));
  const offset = Number(query.get("offset") ?? 0);
  return { total: found.length, rows: found.slice(offset, offset + Number(query.get("limit") ?? 100)) };
}

const held = new Map();
const ANSWERS = [
  [/^GET session$/, () => ({ version: "0.1.0 (mock)", csrf: "mock", read_only: false, clusters: [{ name: "dev", bootstrap: "127.0.0.1:9092", protocol: "PLAINTEXT", needs_login: false, user: null, mechanisms: [], can_play: true }, { name: "staging", bootstrap: "10.0.0.5:9093", protocol: "SASL_SSL", needs_login: true, user: null, mechanisms: ["SCRAM-SHA-512"], can_play: false }] })],
  [/^POST session/, () => ({})],
  [/^GET overview$/, overview],
  [/^GET history$/, (_m, q) => history((q.get("series") ?? "").split(","))],
  [/^GET topics$/, (_m, q) => page(topics, q)],
  [/^GET topics\/([^/]+)$/, (m) => {
    const found = topics.find((one) => one.name === m[1]);
    if (!found) return [404, { error: { code: "UNKNOWN_TOPIC_OR_PARTITION", message: `There is no topic ${m[1]}.`, advice: "Look at the list of topics." } }];
    return {
      ...found, groups: groups.slice(0, 3).map(({ group, type, state, lag, lag_seconds }) => ({ group, type, state, lag, lag_seconds })), producers: [{ partition: 0, producer_id: 4001, epoch: 0, last_sequence: log.leo - 1, last_timestamp: Date.now() - 2000, transactional_open_since: null }],
      partitions: Array.from({ length: found.partitions }, (_, i) => ({ partition: i, leader: 1 + (i % 3), leader_epoch: 3, replicas: [1 + (i % 3), 1 + ((i + 1) % 3), 1 + ((i + 2) % 3)], isr: i === 4 ? [1, 2] : [1, 2, 3], offline: [], log_start: 0, hw: log.hw + i, lso: i === 2 ? log.hw - 3 : log.hw + i, bytes: 4e6 * (i + 1), rate: 40 + i })),
      configs: [["cleanup.policy", "delete", "DYNAMIC_TOPIC_CONFIG"], ["compression.type", "producer", "DEFAULT_CONFIG"], ["max.message.bytes", "1048588", "DEFAULT_CONFIG"], ["min.insync.replicas", "2", "DYNAMIC_TOPIC_CONFIG"], ["retention.ms", "604800000", "DEFAULT_CONFIG"], ["segment.bytes", "1073741824", "DEFAULT_CONFIG"]].map(([name, value, source]) => ({ name, value, source, default: value, sensitive: false, read_only: false, type: "STRING", doc: `What ${name} means.` })),
    };
  }],
  [/^GET topics\/([^/]+)\/records$/, (_m, q) => {
    const limit = Number(q.get("limit") ?? 50);
    const from = q.get("from") === "earliest" ? 0 : /^\d+@/.test(q.get("from") ?? "") ? Number(q.get("from").split("@")[1].split(",")[0]) : q.get("from")?.startsWith("offset:") ? Number(q.get("from").slice(7)) : Math.max(0, log.hw - limit);
    const count = Math.max(0, Math.min(limit, log.hw - from));
    return { records: Array.from({ length: count }, (_, i) => record(from + i)), next: { 0: from + count }, end: { 0: log.hw }, at_end: from + count >= log.hw };
  }],
  [/^GET topics\/([^/]+)\/record$/, (_m, q) => record(Number(q.get("offset")), Number(q.get("partition")))],
  [/^POST topics\/([^/]+)\/records$/, (_m, _q, body) => (body.dry_run ? { plan: { partition: 0 }, applied: false } : { partition: 0, offset: append(1, "console"), timestamp_ms: Date.now() })],
  [/^(POST|PUT|DELETE) topics/, () => ({})],
  [/^GET groups$/, (_m, q) => page(groups, q)],
  [/^GET groups\/([^/]+)$/, (m) => {
    const found = groups.find((one) => one.group === m[1]) ?? groups[0];
    return {
      ...found, epoch: 12, assignor: "uniform", why: ["Partition orders:2 holds 81 % of the lag: one key is hot.", "A transaction of producer 4002 is open since 14 s and holds the last stable offset of orders:2."],
      members: found.members ? Array.from({ length: found.members }, (_, i) => ({ id: `${found.group}-${i}-6f1e`, instance: null, client_id: `${found.group}-${i}`, host: "/127.0.0.1", assignment: { orders: [2 * i, 2 * i + 1] } })) : [],
      partitions: Array.from({ length: 6 }, (_, i) => ({ topic: "orders", partition: i, committed: log.hw - (i === 2 ? 100 : 3), end: log.hw, lag: i === 2 ? 100 : 3, lag_seconds: i === 2 ? 14 : 0.4, member: `${found.group}-${i >> 1}-6f1e`, rate: i === 2 ? 0 : 40, why: i === 2 ? ["A transaction of producer 4002 holds the LSO."] : [] })),
    };
  }],
  [/^GET groups\/([^/]+)\/lag$/, () => { const { t, series } = history(["a"]); return { t, lag: series.a.map((v) => (v === null ? null : v / 10)), lag_seconds: series.a.map((v) => (v === null ? null : v / 400)), partitions: {} }; }],
  [/^POST groups\/([^/]+)\/offsets$/, (_m, _q, body) => ({ plan: [0, 1, 2].map((partition) => ({ topic: body.topic ?? "orders", partition, from: 120, to: 0 })), applied: !body.dry_run })],
  [/^DELETE groups/, () => ({})],
  [/^GET transactions$/, () => [{ transactional_id: "shop-1", producer_id: 4002, producer_epoch: 3, state: "Ongoing", coordinator: 2, timeout_ms: 60000, started_ms: Date.now() - 14000, partitions: ["orders-2", "payments-0"] }, { transactional_id: "billing-1", producer_id: 4003, producer_epoch: 0, state: "CompleteCommit", coordinator: 1, timeout_ms: 60000, started_ms: null, partitions: [] }]],
  [/^POST transactions/, () => ({})],
  [/^GET quorum$/, quorum],
  [/^GET logdirs$/, () => [1, 2, 3].map((node) => ({ node, path: `/var/lib/tidelog/node-${node}`, total: 5e11, usable: 4.2e11 - node * 1e11, topics: 24, bytes: 2.4e9, error: null }))],
  [/^GET reassignments$/, () => [{ topic: "clicks", partition: 1, replicas: [1, 2, 3], adding: [3], removing: [2], progress: 0.62 }]],
  [/^GET acls$/, () => [{ principal: "User:alice", host: "*", operation: "Read", permission: "Allow", resource_type: "Topic", name: "orders", pattern: "Literal" }, { principal: "User:bob", host: "*", operation: "Write", permission: "Deny", resource_type: "Topic", name: "pay", pattern: "Prefixed" }]],
  [/^GET users$/, () => [{ user: "alice", credentials: [{ mechanism: "SCRAM-SHA-512", iterations: 8192 }] }]],
  [/^GET quotas$/, () => [{ entity: { user: "alice", "client-id": null }, quotas: { producer_byte_rate: 1048576 } }]],
  [/^GET pipelines$/, () => [{ name: "orders-to-delta", state: "running", batches: 412, lag: 18, dead_letters: 2, open_transactions: 0 }]],
  [/^GET audit$/, () => [{ at_ms: Date.now() - 90000, user: "alice", cluster: "dev", action: "set configs", what: "orders retention.ms=604800000", result: "done" }]],
  [/^GET xray\/record$/, (_m, q) => {
    const offset = Number(q.get("offset"));
    return {
      record: null, batch: {}, segment: {}, index: {}, epochs: [[0, 0], [3, 90]], hw: log.hw, lso: log.lso, spark: [{ name: "orders-to-delta", batch: 412 }],
      replicas: [1, 2, 3].map((node) => ({ node, leo: log.leo, in_sync: log.isr.includes(node), lag: 0, traced: true, where: `00000000000000000000.log@${offset * 101}` })), commits: groups.slice(0, 3).map((one, i) => ({ group: one.group, committed: log.hw - 40 * i, passed: log.hw - 40 * i > offset })),
      story: [{ sentence: `Record ${offset} is in the batch that begins at ${offset}, in 00000000000000000000.log at position ${offset * 101}.`, source: "files", at_ms: null }, { sentence: "Every replica of the in-sync set has it: the high watermark is above it.", source: "protocol", at_ms: null }],
    };
  }],
  [/^GET xray\/bytes$/, (_m, q) => ({ position: 9216, file: "00000000000000000100.log", ...hexOf(Number(q.get("offset"))), index_entry: { relative_offset: 20, offset: 120, position: 8192, entry_number: 2 }, segment_place: { segments: [{ base_offset: 0, size: 16384 }, { base_offset: 60, size: 16300 }, { base_offset: 100, size: 11000 }], file: "00000000000000000100.log", position: 9216 } })],
  [/^POST xray\/probe$/, () => ({ partition: 0, offset: append(1, "console-probe") })],
  [/^GET play$/, () => ({ nodes: [1, 2, 3].map((id) => ({ id, state: held.get(id) ?? "running" })) })],
  [/^POST play\/(\w+)$/, (m, _q, body) => {
    if (m[1] === "hold") {
      held.set(body.node, "held");
      log.isr = log.isr.filter((one) => one !== body.node);
      emit([event("isr_changed", 1, 3e6, { isr: log.isr, leader_epoch: 3, partition_epoch: 9 })]);
    } else if (m[1] === "kill") held.set(body.node, "down");
    else {
      held.delete(body.node);
      log.isr = [1, 2, 3];
      emit([event("isr_changed", 1, 1e6, { isr: log.isr, leader_epoch: 3, partition_epoch: 10 }), event("appended", body.node, 400, { by: "follower", leo: log.leo, base_offset: log.leo - 1, last_offset: log.leo - 1 })]);
    }
    return {};
  }],
];

function stream(response, path, query) {
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  const send = (name, data) => response.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  const timers = [];
  if (path === "events") timers.push(setInterval(() => send("overview", overview()), 2000));
  else if (path === "xray/live") {
    send("state", { partition: { leader: 1, replicas: [1, 2, 3], isr: log.isr, leo: log.leo, hw: log.hw, lso: log.lso, log_start: 0 }, sources: [1, 2, 3].map((node) => ({ node, source: `node ${node}`, traced: true, offset_us: 0, uncertainty_us: node === 1 ? 0 : 40 })) });
    log.listeners.add(send);
    response.on("close", () => log.listeners.delete(send));
  } else if (path.endsWith("/tail")) timers.push(setInterval(() => { const at = append(1); send("records", { records: [record(at)], seen: at * 300, shown: at, rate: 98000 }); }, 400));
  else if (path.endsWith("/search")) {
    let at = 0;
    const timer = setInterval(() => {
      for (let i = 0; i < 20 && at < log.hw; i += 1, at += 1) if (record(at).value.text.includes(query.get("q"))) send("hit", record(at));
      send("progress", { searched: at, of: log.hw, bytes: at * 100 });
      if (at >= log.hw) {
        send("done", { searched: at, complete: true });
        clearInterval(timer);
      }
    }, 150);
    timers.push(timer);
  }
  response.on("close", () => timers.forEach(clearInterval));
}

createServer(async (request, response) => {
  const address = new URL(request.url, "http://mock");
  if (!address.pathname.startsWith("/api/")) {
    const name = address.pathname === "/" ? "index.html" : address.pathname.slice(1);
    const file = fileURLToPath(new URL(name, built));
    if (!/^[\w.]+$/.test(name) || !existsSync(file)) return response.writeHead(404).end();
    return response.writeHead(200, { "Content-Type": TYPES[name.split(".").at(-1)] ?? "text/plain", "Content-Security-Policy": POLICY }).end(readFileSync(file));
  }
  const path = decodeURIComponent(address.pathname.slice(5).replace(/^c\/[^/]+\//, ""));
  if (/^(events|xray\/live|topics\/[^/]+\/(tail|search))$/.test(path)) return stream(response, path, address.searchParams);
  let body = "";
  for await (const piece of request) body += piece;
  for (const [pattern, answer] of ANSWERS) {
    const match = pattern.exec(`${request.method} ${path}`);
    if (!match) continue;
    const said = answer(match, address.searchParams, body ? JSON.parse(body) : {});
    const [status, data] = Array.isArray(said) && typeof said[0] === "number" && said.length === 2 ? said : [200, said];
    return response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(data));
  }
  response.writeHead(404, { "Content-Type": "application/json" }).end(JSON.stringify({ error: { code: "NOT_FOUND", message: `The mock has no ${request.method} ${path}.`, advice: "" } }));
}).listen(port, "127.0.0.1", function () {
  console.log(`http://127.0.0.1:${this.address().port}`);
});
