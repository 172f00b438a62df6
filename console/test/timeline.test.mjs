// The X-ray's timeline without a browser: what a stream of events becomes.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { transformWithOxc } from "vite";

async function load(path) {
  const url = new URL(path, import.meta.url);
  const { code } = await transformWithOxc(readFileSync(url, "utf-8"), url.pathname);
  return import(`data:text/javascript,${encodeURIComponent(code)}`);
}
const { Timeline, stretched } = await load("../src/xray/timeline.ts");

const START = { partition: { leader: 1, replicas: [1, 2, 3], isr: [1, 2, 3], leo: 10, hw: 10, lso: 10 }, sources: [] };

function timelineOf(...events) {
  const timeline = new Timeline();
  timeline.begin(START);
  events.forEach((event, i) => timeline.add({ seq: i, at_us: 100 * i, uncertainty_us: 0, ...event }));
  return timeline;
}
const ROUND = [
  { type: "produce_received", node: 1, client_id: "p", records: 2, producer_id: 7, base_sequence: 0 },
  { type: "appended", node: 1, by: "leader", base_offset: 10, last_offset: 11, leo: 12, producer_id: 7, base_sequence: 0 },
  { type: "follower_fetch_answered", node: 1, replica: 2, from_offset: 10, to_offset: 12 },
  { type: "appended", node: 2, by: "follower", base_offset: 10, last_offset: 11, leo: 12 },
  { type: "follower_fetch_answered", node: 1, replica: 3, from_offset: 10, to_offset: 12 },
  { type: "appended", node: 3, by: "follower", base_offset: 10, last_offset: 11, leo: 12 },
  { type: "follower_fetch", node: 1, replica: 2, fetch_offset: 12 },
  { type: "follower_fetch", node: 1, replica: 3, fetch_offset: 12 },
  { type: "hw_moved", node: 1, hw: 12, by: 3 },
  { type: "produce_answered", node: 1, client_id: "p", base_offset: 10, error: "NONE" },
  { type: "fetch_answered", node: 1, client_id: "c", from_offset: 10, to_offset: 12 },
  { type: "offset_committed", node: 2, group: "g", offset: 12 },
];

test("a record goes from the producer to the commit, and each moment has its picture", () => {
  const timeline = timelineOf(...ROUND);
  assert.deepEqual(timeline.journey(11).map((frame) => frame.event.type), ROUND.map((event) => event.type));
  const at = (type) => timeline.pictureAt(timeline.frames.find((frame) => frame.event.type === type).shown);
  assert.deepEqual(timeline.pictureAt(-1).leos, { 1: 10, 2: 10, 3: 10 });
  assert.deepEqual(at("appended").leos, { 1: 12, 2: 10, 3: 10 });
  assert.equal(at("appended").hw, 10);
  assert.equal(at("hw_moved").hw, 12);
  assert.deepEqual(timeline.picture.commits, { g: 12 });
});

test("a record that nobody followed has no journey", () => {
  assert.deepEqual(timelineOf(...ROUND).journey(12), []);
  assert.deepEqual(timelineOf(...ROUND).journey(3), []);
});

test("the request that wrote a record is known by its sequence, not by its place", () => {
  const timeline = timelineOf(
    { type: "produce_received", node: 1, client_id: "a", records: 1, producer_id: 7, base_sequence: 0 },
    { type: "produce_received", node: 1, client_id: "b", records: 1, producer_id: 8, base_sequence: 0 },
    { type: "appended", node: 1, by: "leader", base_offset: 10, last_offset: 10, leo: 11, producer_id: 7, base_sequence: 0 },
    { type: "appended", node: 1, by: "leader", base_offset: 11, last_offset: 11, leo: 12, producer_id: 8, base_sequence: 0 },
  );
  assert.equal(timeline.journey(10)[0].event.client_id, "a");
  assert.equal(timeline.journey(11)[0].event.client_id, "b");
});

test("a token arrives when the follower appends, not later", () => {
  const timeline = timelineOf(...ROUND);
  const append = timeline.frames[3];
  assert.equal(timeline.tokens.find((token) => token.to === "n2" && token.kind === "record").end, append.shown);
});

test("what was cut is not drawn any more, and is drawn again in a replay", () => {
  const timeline = timelineOf(...ROUND, { type: "truncated", node: 1, to_offset: 10 });
  const [batch] = timeline.batches;
  assert.ok(batch.gone <= timeline.end && batch.gone > batch.shown);
  assert.equal(timeline.picture.leos[1], 10);
});

test("a failover moves the crown and the in-sync set", () => {
  const timeline = timelineOf({ type: "role_changed", node: 2, role: "leader", leader: 2, leader_epoch: 5 }, { type: "isr_changed", node: 2, isr: [2, 3] });
  assert.equal(timeline.picture.leader, 2);
  assert.equal(timeline.picture.epoch, 5);
  assert.deepEqual(timeline.picture.isr, [2, 3]);
});

test("the beat of a coordinator on the leader's node says nothing of the partition", () => {
  const timeline = timelineOf({ type: "heartbeat", node: 1, leo: 12, hw: 11, lso: 11 }, { type: "heartbeat", node: 1, leo: -1, hw: -1, lso: -1 }, { type: "hello", node: 1, group: "g", state: "Stable" });
  assert.deepEqual([timeline.picture.leos[1], timeline.picture.hw, timeline.picture.lso], [12, 11, 11]);
});

test("what a follower copies at once does not hide the leader's batches", () => {
  const append = (offset) => ({ type: "appended", node: 1, by: "leader", base_offset: offset, last_offset: offset, leo: offset + 1 });
  const copy = { type: "appended", node: 2, by: "follower", base_offset: 8, last_offset: 12, leo: 13 };
  assert.deepEqual(timelineOf(append(10), append(11), append(12), copy).batches.map((batch) => batch.base), [10, 11, 12]);
  assert.deepEqual(timelineOf(copy, append(10), append(11)).batches.map((batch) => batch.base), [10, 11]);
});

test("a fetch goes to the lane of the group whose client has committed", () => {
  const fetched = { type: "fetch_answered", node: 1, client_id: "c", from_offset: 10, to_offset: 11 };
  const timeline = timelineOf(fetched, { type: "offset_committed", node: 2, group: "g", client_id: "c", offset: 11 }, { ...fetched, from_offset: 11, to_offset: 12 });
  assert.deepEqual(timeline.tokens.filter((token) => token.kind === "record").map((token) => token.to), ["readers", "g:g"]);
});

test("memory is bounded, and the picture before the oldest event that is kept stays true", () => {
  const timeline = new Timeline();
  timeline.begin(START);
  for (let i = 0; i < 20_000; i += 1) timeline.add({ type: "appended", node: 1, by: "leader", base_offset: 10 + i, last_offset: 10 + i, leo: 11 + i, seq: i, at_us: 50 * i, uncertainty_us: 0 });
  assert.ok(timeline.frames.length <= 6000);
  assert.ok(timeline.batches.length <= 3000);
  assert.equal(timeline.forgotten + timeline.frames.length, 20_000);
  assert.equal(timeline.start.leos[1], 10 + timeline.forgotten);
  assert.equal(timeline.picture.leos[1], 20_010);
});

test("idle fetches take hardly any of the eyes' time, and no gap takes a second", () => {
  const idle = Array.from({ length: 50 }, () => ({ type: "follower_fetch", node: 1, replica: 2, fetch_offset: 10 }));
  assert.ok(timelineOf(...idle).end <= 50 * 20);
  assert.ok(stretched(3.6e9) <= 900);
  assert.ok(stretched(10) > 30);
});
