// The events of one partition in the order of their causes, with the picture that each leaves behind, on a clock for eyes.
//
// Real gaps go from microseconds to minutes; `shown` stretches the short and shortens the long ones, so that every step can be seen.
// What is drawn at a moment is the picture of the last event before it, and the tokens that are under way. No clock, no DOM.
import type { LiveState, TraceEvent } from "../lib/types";

export type Picture = {
  readonly leader: number; readonly epoch: number | null; readonly replicas: readonly number[]; readonly isr: readonly number[];
  readonly leos: Readonly<Record<number, number>>; readonly hw: number; readonly lso: number; readonly logStart: number;
  readonly commits: Readonly<Record<string, number>>;
};
export type Token = {
  readonly kind: "record" | "ack" | "ask" | "commit"; readonly from: string; readonly to: string; readonly first: number;
  readonly last: number; readonly begin: number; end: number;
};
export type Frame = { readonly event: TraceEvent; readonly shown: number; readonly picture: Picture; first: number | null; last: number | null };
export type Batch = {
  readonly base: number; readonly last: number; readonly shown: number; readonly kind: "data" | "transactional" | "marker";
  gone: number;
  readonly isCopy: boolean;
};

const EVENTS_MAX = 6000;
const BATCHES_MAX = 3000;
const CLIENTS_MAX = 500;
const TOKEN_MS = 520;

export const EMPTY: Picture = { leader: -1, epoch: null, replicas: [], isr: [], leos: {}, hw: 0, lso: 0, logStart: 0, commits: {} };

export function int(event: TraceEvent, field: string): number | null {
  const value = event[field];
  return typeof value === "number" ? value : null;
}

/** The time for eyes, in ms, of a gap of so many microseconds. */
export function stretched(gapUs: number): number {
  return Math.min(900, 110 * Math.log10(1 + Math.max(0, gapUs) / 4));
}

export class Timeline {
  frames: Frame[] = [];
  tokens: Token[] = [];
  batches: Batch[] = [];
  private groups = new Map<string, string>();
  start: Picture = EMPTY;
  /** How many events no longer are kept. */
  forgotten = 0;

  /** What polling tells. Where the leader itself tells, polling is late: only who leads and who is in sync is taken from it. */
  begin(state: LiveState): void {
    const { leader, leader_epoch, replicas, isr, leo, hw, lso, log_start } = state.partition;
    const before = this.picture;
    const isTold = this.frames.length > 0 && state.sources.some((one) => one.node === leader && one.traced);
    const end = leo ?? hw ?? before.hw;
    const leos: Record<number, number> = {};
    for (const node of replicas) {
      const known = before.leos[node];
      leos[node] = isTold && known !== undefined ? known : isr.includes(node) ? Math.max(end, known ?? 0) : (known ?? Math.min(end, hw ?? end));
    }
    const picture: Picture = {
      leader, epoch: leader_epoch ?? before.epoch, replicas, isr, leos, logStart: log_start ?? before.logStart, commits: before.commits,
      hw: isTold ? before.hw : (hw ?? before.hw), lso: isTold ? before.lso : (lso ?? before.lso),
    };
    if (this.frames.length === 0) this.start = picture;
    else this.push({ type: "state", node: leader, seq: 0, at_us: this.frames.at(-1)!.event.at_us, uncertainty_us: 0 }, picture, 0);
  }

  get picture(): Picture {
    return this.frames.at(-1)?.picture ?? this.start;
  }
  get end(): number {
    return this.frames.at(-1)?.shown ?? 0;
  }
  get firstShown(): number {
    return this.frames[0]?.shown ?? 0;
  }

  commit(group: string, offset: number): void {
    if (this.frames.length === 0) this.start = { ...this.start, commits: { ...this.start.commits, [group]: offset } };
  }

  add(event: TraceEvent): void {
    const before = this.picture;
    const after = apply(before, event);
    const last = this.frames.at(-1)?.event;
    const gap = last ? event.at_us - last.at_us : 0;
    const frame = this.push(event, after, isIdle(before, event) ? Math.min(20, stretched(gap)) : Math.max(160, stretched(gap)));
    this.join(frame);
    this.move(before, frame);
    if (this.frames.length > EVENTS_MAX) this.forget();
  }

  private push(event: TraceEvent, picture: Picture, wait: number): Frame {
    const frame: Frame = { event, shown: this.end + wait, picture, first: int(event, "base_offset"), last: int(event, "last_offset") };
    this.frames.push(frame);
    return frame;
  }

  /** Gives a produce request the offsets that its records got: what a leader appends is the newest request that fits. */
  private join(frame: Frame): void {
    const { event } = frame;
    if (event.type !== "appended" || event.by !== "leader") return;
    for (let i = this.frames.length - 1; i >= 0 && i > this.frames.length - 60; i -= 1) {
      const other = this.frames[i]!;
      if (other.event.type !== "produce_received" || other.first !== null) continue;
      const id = int(event, "producer_id");
      const same = id !== null && id >= 0 ? int(other.event, "producer_id") === id && int(other.event, "base_sequence") === int(event, "base_sequence") : true;
      if (!same) continue;
      other.first = frame.first;
      other.last = frame.last;
      for (const token of this.tokens) if (token.kind === "record" && token.from === "producer" && token.end === other.shown) Object.assign(token, { first: frame.first, last: frame.last });
      return;
    }
  }

  private move(before: Picture, frame: Frame): void {
    const { event, shown } = frame;
    const node = `n${event.node}`;
    const token = (kind: Token["kind"], from: string, to: string, first: number, last: number, begin: number, end: number) => this.tokens.push({ kind, from, to, first, last, begin, end });
    const leo = before.leos[event.node] ?? before.hw;
    switch (event.type) {
      case "produce_received":
        token("record", "producer", node, leo, leo + (int(event, "records") ?? 1) - 1, shown - TOKEN_MS, shown);
        break;
      case "appended": {
        const first = frame.first ?? leo;
        const last = frame.last ?? first;
        if (event.by !== "follower") {
          const kind = event.by === "marker" ? "marker" : event.is_transactional ? "transactional" : "data";
          if (this.batches.at(-1)?.isCopy) this.batches = this.batches.filter((batch) => !batch.isCopy || batch.last < first);
          if (this.batches.at(-1)?.base !== first) this.batches.push({ base: first, last, shown, kind, gone: Infinity, isCopy: false });
          if (this.batches.length > BATCHES_MAX) this.batches.splice(0, BATCHES_MAX / 2);
        } else {
          // It arrives when it is appended, not later.
          const sent = this.tokens.findLast((one) => one.kind === "record" && one.to === node && one.first <= last && one.last >= first);
          if (sent && sent.end > shown) sent.end = Math.max(sent.begin + 80, shown);
          // What a follower copies at once may be many batches: the leader's are the true ones where they are known.
          if (!this.batches.some((batch) => batch.base <= last && first <= batch.last)) {
            this.batches.push({ base: first, last, shown, kind: "data", gone: Infinity, isCopy: true });
            this.batches.sort((a, b) => a.base - b.base);
          }
        }
        break;
      }
      case "follower_fetch": {
        const replica = int(event, "replica");
        const offset = int(event, "fetch_offset") ?? 0;
        if (replica !== null && offset > (before.leos[replica] ?? -1) - 1 && !isIdle(before, event)) token("ask", `n${replica}`, node, offset, offset, shown - 300, shown);
        break;
      }
      case "follower_fetch_answered": {
        const first = int(event, "from_offset");
        const to = int(event, "to_offset");
        const replica = int(event, "replica");
        // -1: the answer was cut by its limit, and nobody knows where.
        if (replica !== null && first !== null && to !== null && (to > first || to < 0)) token("record", node, `n${replica}`, first, to < 0 ? first : to - 1, shown, shown + TOKEN_MS);
        break;
      }
      case "produce_answered":
        if (frame.first !== null && frame.first >= 0) token("ack", node, "producer", frame.first, frame.first, shown, shown + TOKEN_MS);
        break;
      case "fetch_answered": {
        const first = int(event, "from_offset");
        const to = int(event, "to_offset");
        if (first !== null && to !== null && to > first) token("record", node, this.readerOf(event), first, to - 1, shown, shown + TOKEN_MS);
        break;
      }
      case "offset_committed": {
        const offset = int(event, "offset");
        if (event.group && event.client_id && this.groups.size < CLIENTS_MAX) this.groups.set(String(event.client_id), String(event.group));
        if (offset !== null) token("commit", this.readerOf(event), this.readerOf(event), offset, offset, shown, shown + TOKEN_MS);
        break;
      }
      case "truncated": {
        const to = int(event, "to_offset") ?? 0;
        if (event.node === before.leader) for (const batch of this.batches) if (batch.base >= to) batch.gone = Math.min(batch.gone, shown);
        break;
      }
    }
  }

  /** The lane of who reads. A fetch names a client; of which group it is, its commits tell. */
  private readerOf(event: TraceEvent): string {
    const group = event.group ?? this.groups.get(String(event.client_id));
    return group ? `g:${String(group)}` : "readers";
  }

  private forget(): void {
    const cut = EVENTS_MAX / 2;
    this.start = this.frames[cut - 1]!.picture;
    this.frames.splice(0, cut);
    this.forgotten += cut;
    const from = this.firstShown;
    this.tokens = this.tokens.filter((token) => token.end > from);
  }

  /** The index of the last frame at or before this moment; -1 for none. */
  indexAt(shown: number): number {
    let low = 0;
    let high = this.frames.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.frames[middle]!.shown <= shown) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  pictureAt(shown: number): Picture {
    const index = this.indexAt(shown);
    return index < 0 ? this.start : this.frames[index]!.picture;
  }

  tokensAt(shown: number): Token[] {
    const found: Token[] = [];
    for (let i = this.tokens.length - 1; i >= 0 && i > this.tokens.length - 400; i -= 1) {
      const token = this.tokens[i]!;
      if (token.begin <= shown && shown < token.end) found.push(token);
    }
    return found;
  }

  /** The frames that tell what became of the record at an offset. */
  journey(offset: number): Frame[] {
    const found: Frame[] = [];
    const once = new Set<string>();
    const has = (frame: Frame) => frame.first !== null && frame.first <= offset && offset <= (frame.last ?? frame.first);
    let appended = false;
    let base: number | null = null;
    let top: number | null = null;
    let before = this.start;
    for (const frame of this.frames) {
      const { event } = frame;
      const earlier = before;
      before = frame.picture;
      const crosses = (from: number, to: number | null) => from <= offset && offset < (to ?? -1);
      const first = (name: string, is: boolean) => {
        if (!is || once.has(name)) return false;
        once.add(name);
        return true;
      };
      const within = () => (int(event, "from_offset") ?? Infinity) <= offset && offset < (int(event, "to_offset") ?? -1);
      let is = false;
      if (event.type === "produce_received") is = has(frame);
      else if (event.type === "appended") {
        is = has(frame);
        if (is && event.by !== "follower") {
          appended = true;
          base = frame.first;
          top = frame.last;
        }
      } else if (event.type === "index_entry") is = base !== null && base <= (int(event, "offset") ?? -1) && (int(event, "offset") ?? -1) <= (top ?? base);
      else if (event.type === "produce_answered") is = base !== null && frame.first === base;
      else if (event.type === "follower_fetch_answered") is = within();
      else if (event.type === "follower_fetch") is = first(`ask${event.replica}`, appended && (int(event, "fetch_offset") ?? 0) > offset);
      else if (event.type === "hw_moved") is = first("hw", crosses(earlier.hw, int(event, "hw")));
      else if (event.type === "lso_moved") is = first("lso", crosses(earlier.lso, int(event, "lso")));
      else if (event.type === "fetch_answered") is = within() && first(`read${event.client_id}`, true);
      else if (event.type === "offset_committed") is = first(`commit${event.group}`, crosses(earlier.commits[String(event.group)] ?? this.start.hw, int(event, "offset")));
      else if (["isr_changed", "role_changed", "truncated", "gap"].includes(event.type)) is = appended && !once.has("hw");
      if (is) found.push(frame);
    }
    return found;
  }
}

function apply(before: Picture, event: TraceEvent): Picture {
  const leo = (node: number, value: number | null) => (value === null ? before.leos : { ...before.leos, [node]: value });
  switch (event.type) {
    case "hello":
    case "heartbeat": {
      // A coordinator says hello and beats too, and knows of no offset: -1.
      const end = int(event, "leo") ?? -1;
      if (end < 0) return before;
      const isLeader = event.type === "hello" ? event.role === "leader" : event.node === before.leader;
      const told = { ...before, leos: leo(event.node, end) };
      if (!isLeader) return told;
      return {
        ...told,
        hw: int(event, "hw") ?? before.hw, lso: int(event, "lso") ?? before.lso, logStart: int(event, "log_start") ?? before.logStart,
        isr: (event.isr as number[] | undefined) ?? before.isr, replicas: (event.replicas as number[] | undefined) ?? before.replicas,
        leader: event.role === "leader" ? event.node : before.leader, epoch: int(event, "leader_epoch") ?? before.epoch,
      };
    }
    case "appended":
      return { ...before, leos: leo(event.node, int(event, "leo") ?? (int(event, "last_offset") ?? -1) + 1) };
    case "follower_fetch": {
      // The leader knows of a follower what it asks for; a node that is traced tells more.
      const replica = int(event, "replica");
      const offset = int(event, "fetch_offset");
      return replica === null || offset === null || (before.leos[replica] ?? -1) >= offset ? before : { ...before, leos: leo(replica, offset) };
    }
    case "hw_moved":
      // A follower learns of it with the next fetch: the leader's is the one.
      return event.node === before.leader ? { ...before, hw: int(event, "hw") ?? before.hw } : before;
    case "lso_moved":
      return event.node === before.leader ? { ...before, lso: int(event, "lso") ?? before.lso } : before;
    case "truncated":
      return { ...before, leos: leo(event.node, int(event, "to_offset")) };
    case "isr_changed":
      return { ...before, isr: (event.isr as number[] | undefined) ?? before.isr };
    case "role_changed":
      return { ...before, leader: int(event, "leader") ?? (event.role === "leader" ? event.node : before.leader), epoch: int(event, "leader_epoch") ?? before.epoch };
    case "offset_committed": {
      const offset = int(event, "offset");
      return offset === null ? before : { ...before, commits: { ...before.commits, [String(event.group ?? event.client_id ?? "group")]: offset } };
    }
    default:
      return before;
  }
}

/** Whether nothing that one could see comes of it. */
export function isIdle(before: Picture, event: TraceEvent): boolean {
  if (["hello", "heartbeat", "state"].includes(event.type)) return true;
  if ((event.type === "hw_moved" || event.type === "lso_moved") && event.node !== before.leader) return true;
  if (event.type === "follower_fetch") return (before.leos[int(event, "replica") ?? -1] ?? -1) >= (int(event, "fetch_offset") ?? 0) && (int(event, "fetch_offset") ?? 0) <= before.hw;
  if (event.type === "follower_fetch_answered" || event.type === "fetch_answered") return (int(event, "to_offset") ?? 0) >= 0 && (int(event, "to_offset") ?? 0) <= (int(event, "from_offset") ?? 0);
  return false;
}
