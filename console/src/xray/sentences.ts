// One sentence an event, for people.
import { bytes, count } from "../lib/format";
import { int, type Frame } from "./timeline";

const n = (value: unknown) => (typeof value === "number" ? count(value) : String(value ?? "?"));
const span = (first: number | null, last: number | null) => (first === null ? "?" : last === null || last === first ? n(first) : `${n(first)}–${n(last)}`);

export function sentence({ event, first, last }: Frame): string {
  const node = `node ${event.node}`;
  const records = (value: unknown) => (value === 1 ? "1 record" : `${n(value)} records`);
  switch (event.type) {
    case "produce_received":
      return `Producer ${event.client_id || "without a name"} sends ${records(event.records)} (${bytes(int(event, "bytes"))}, acks=${event.acks === -1 ? "all" : event.acks}) to ${node}.`;
    case "produce_refused":
      return `The ${node} refuses a produce request: ${event.error}.`;
    case "appended": {
      const where = event.file ? ` in ${event.file} at position ${n(event.position)}` : "";
      if (event.by === "follower") return `Follower ${event.node} appends ${span(first, last)}${where}; its LEO is ${n(event.leo)}.`;
      if (event.by === "marker") return `The ${node} appends a transaction's marker at ${n(first)}${where}.`;
      return `Leader ${event.node} appends ${span(first, last)}${where}; its LEO is ${n(event.leo)}.`;
    }
    case "index_entry":
      return `The ${event.index} index of ${node} gets an entry: ${event.index === "time" ? `up to time ${event.timestamp_ms} there is nothing after offset ${n(event.offset)}` : `offset ${n(event.offset)} is at position ${n(event.position)}`}.`;
    case "follower_fetch":
      return `Follower ${event.replica} asks from ${n(event.fetch_offset)} on: it has all before that.`;
    case "follower_fetch_answered": {
      const from = int(event, "from_offset") ?? 0;
      const to = int(event, "to_offset") ?? 0;
      if (to < 0) return `Leader ${event.node} sends what fits from ${n(from)} on to follower ${event.replica}.`;
      return to > from ? `Leader ${event.node} sends ${span(from, to - 1)} to follower ${event.replica}.` : `Leader ${event.node} has nothing new for follower ${event.replica}.`;
    }
    case "hw_moved":
      return typeof event.by === "number" ? `The high watermark is ${n(event.hw)} now: the fetch of follower ${event.by} was the one missing.` : event.by === "isr" ? `The high watermark is ${n(event.hw)} now: the in-sync set shrank to those that have it.` : `The high watermark is ${n(event.hw)} now.`;
    case "lso_moved":
      return `The last stable offset is ${n(event.lso)} now.`;
    case "produce_answered":
      return event.error && event.error !== "NONE" ? `Leader ${event.node} answers ${event.client_id || "the producer"}: ${event.error}.` : `Leader ${event.node} answers ${event.client_id || "the producer"}: your first record is at ${n(event.base_offset)}.`;
    case "fetch_answered": {
      const from = int(event, "from_offset") ?? 0;
      const to = int(event, "to_offset") ?? 0;
      if (to < 0) return `Consumer ${event.client_id || "without a name"} gets what fits from ${n(from)} on.`;
      return to > from ? `Consumer ${event.client_id || "without a name"} gets ${span(from, to - 1)}${event.group ? ` for group ${event.group}` : ""}.` : `Consumer ${event.client_id || "without a name"} gets nothing new.`;
    }
    case "offset_committed":
      return `Group ${event.group ?? event.client_id ?? ""} commits ${n(event.offset)}: it is done with all before that.`;
    case "marker":
      return `The transaction of producer ${event.producer_id} ${event.commit ? "is committed" : "is aborted"}: its marker is at ${n(event.offset)}.`;
    case "truncated":
      return `The log of ${node} is cut to ${n(event.to_offset)}: what came after was not committed.`;
    case "role_changed":
      return event.role === "leader" || event.leader === event.node ? `Node ${event.node} is the leader now, in epoch ${n(event.leader_epoch)}.` : `Node ${event.node} follows ${n(event.leader)} now, in epoch ${n(event.leader_epoch)}.`;
    case "isr_changed":
      return `The in-sync set is ${((event.isr as number[] | undefined) ?? []).join(", ")} now.`;
    case "transaction_state":
      return `The transaction ${event.transactional_id ?? ""} is ${event.state} now.`;
    case "rebalanced":
      return `Group ${event.group ?? ""} has a new generation, ${n(event.generation)}, with ${n(Array.isArray(event.members) ? event.members.length : event.members)} members.`;
    case "spark_batch":
      return `Batch ${n(event.batch)} of ${event.query ?? "the Spark query"} contains it.`;
    case "dropped":
      return `The ${node} dropped ${n(event.count)} events: it never waits for who listens.`;
    case "gap":
      return `Here ${n(event.dropped)} events of ${node} are missing${event.reason ? `: ${event.reason}` : ""}.`;
    case "produce_duplicate":
      return `Leader ${event.node} has ${span(first, last)} already: the producer sent it again, and it is not appended twice.`;
    case "ended":
      return `Node ${event.node} tells no more: ${event.reason}.`;
    case "hello":
      return `Listening to ${node}.`;
    default:
      return `${event.type.replaceAll("_", " ")} on ${node}.`;
  }
}

/** Which colour an event has: by who acts. */
export function colourOf(type: string): string {
  if (/produce/.test(type)) return "var(--accent)";
  if (/hw_moved|lso_moved/.test(type)) return "var(--good)";
  if (/isr|role|truncated|refused|gap|dropped/.test(type)) return "var(--bad)";
  if (/fetch_answered|offset_committed|spark/.test(type) && !/follower/.test(type)) return "var(--warn)";
  if (/appended|marker|index/.test(type)) return "var(--text)";
  return "var(--muted)";
}
