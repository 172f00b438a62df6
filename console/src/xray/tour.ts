// The guided tour: ten steps on the cluster that runs. A step says what a thing is, does something real, and looks whether it happened.
import { at, get, post, put, rowsOf } from "../lib/api";
import type { Cluster, GroupRow, Play, RecordPage, Topic } from "../lib/types";

export const TOPIC = "tour";
export const COMPACTED = "tour-latest";
export const SHORT = "tour-short";

type Place = { cluster: Cluster; topic: () => Promise<Topic | null> };
export type Act = { label: string; needsPlay?: boolean; run: (place: Place) => Promise<string> };
export type Step = {
  title: string;
  text: string[];
  acts?: Act[];
  command?: (bootstrap: string) => string;
  look: { label: string; parts: (string | number)[]; query?: Record<string, string | number> };
  /** One sentence when it is seen, null while it is not. */
  seen: (place: Place) => Promise<string | null>;
};

async function make(cluster: string, name: string, partitions: number, configs: Record<string, string> = {}): Promise<void> {
  try {
    await post(at(cluster, "topics"), { name, partitions, replication: null, configs, dry_run: false });
  } catch (error) {
    if ((error as { code?: string }).code !== "TOPIC_ALREADY_EXISTS") throw error;
  }
}

async function write(cluster: string, topic: string, key: string | null, value: string): Promise<{ partition: number; offset: number }> {
  return post(at(cluster, "topics", topic, "records"), { partition: null, key, value, headers: [], key_format: key === null ? null : "text", value_format: "text", dry_run: false });
}

const records = (topic: Topic | null) => topic?.partitions.reduce((sum, one) => sum + one.hw, 0) ?? 0;
const plural = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`;

export const STEPS: Step[] = [
  {
    title: "The log",
    text: [
      "A topic is a log: a file to whose end records are appended, and which nobody changes in the middle. Everything else follows from that.",
      "Make a topic and write three records. Then look at them: they stay after they were read.",
    ],
    acts: [
      {
        label: "Make the topic, write three records",
        run: async ({ cluster }) => {
          await make(cluster.name, TOPIC, 3);
          for (const value of ["one apple", "two pears", "three plums"]) await write(cluster.name, TOPIC, null, value);
          return "Three records are in the topic tour.";
        },
      },
    ],
    look: { label: "See the records", parts: ["topics", TOPIC, "records"], query: { from: "earliest" } },
    seen: async ({ topic }) => (records(await topic()) >= 3 ? `The log of tour has ${plural(records(await topic()), "record")}.` : null),
  },
  {
    title: "Offsets",
    text: [
      "Each record of a partition has a number, its offset: 0, 1, 2. A reader keeps nothing but the next offset that it wants, and can go back at any time.",
      "Go to an offset by its number or to a time; the address in the browser is a link to just that record.",
    ],
    look: { label: "Open one record", parts: ["topics", TOPIC, "records"], query: { from: "earliest" } },
    seen: async ({ topic }) => {
      const found = (await topic())?.partitions.find((one) => one.hw > 0);
      return found ? `Partition ${found.partition} has offsets 0 to ${found.hw - 1}; the next is ${found.hw}.` : null;
    },
  },
  {
    title: "Partitions and keys",
    text: [
      "A topic is cut into partitions, so that many nodes and many readers share the work. Order holds within a partition, and nowhere else.",
      "Records with the same key go to the same partition. Write six with three keys and see where they land.",
    ],
    acts: [
      {
        label: "Write six records with three keys",
        run: async ({ cluster }) => {
          const where = new Map<string, number>();
          for (const [key, value] of [["ann", "1"], ["bob", "1"], ["cem", "1"], ["ann", "2"], ["bob", "2"], ["cem", "2"]] as const) where.set(key, (await write(cluster.name, TOPIC, key, value)).partition);
          return [...where].map(([key, partition]) => `${key} is in partition ${partition}`).join(", ") + ".";
        },
      },
    ],
    look: { label: "See the partitions", parts: ["topics", TOPIC] },
    seen: async ({ topic }) => ((await topic()) ? `tour has ${plural((await topic())!.partitions.length, "partition")}.` : null),
  },
  {
    title: "Replication and the high watermark",
    text: [
      "Followers fetch from the leader, as readers do. What a follower asks for tells the leader what it has. The high watermark is the offset that all in-sync replicas have reached: only below it may consumers read, and only then does acks=all get its answer.",
      "Send a probe and follow it. Then hold a follower: the high watermark stands still until the follower goes on or is put out of the in-sync set.",
    ],
    acts: [
      {
        label: "Hold a follower for 45 seconds",
        needsPlay: true,
        run: async ({ cluster, topic }) => {
          const partition = (await topic())?.partitions[0];
          const node = partition?.replicas.find((one) => one !== partition.leader);
          if (node === undefined) return "This partition has no follower: the cluster has one node.";
          await post(at(cluster.name, "play", "hold"), { node, seconds: 45 });
          return `Node ${node} stands still.`;
        },
      },
    ],
    look: { label: "To the X-ray", parts: ["xray", TOPIC, 0] },
    seen: async ({ topic }) => {
      const partition = (await topic())?.partitions[0];
      return partition ? `In sync: ${partition.isr.join(", ")} of ${partition.replicas.join(", ")}. High watermark ${partition.hw}.` : null;
    },
  },
  {
    title: "Failover",
    text: [
      "When a leader dies, the controller makes another replica of the in-sync set the leader, in a new leader epoch. No record below the high watermark is lost, because every one of that set has it.",
      "Kill the leader and watch another take over. Then start the node again: it cuts what was never committed and catches up.",
    ],
    acts: [
      {
        label: "Kill the leader",
        needsPlay: true,
        run: async ({ cluster, topic }) => {
          const leader = (await topic())?.partitions[0]?.leader;
          if (leader === undefined || leader < 0) return "There is no leader now.";
          await post(at(cluster.name, "play", "kill"), { node: leader });
          return `Node ${leader} is killed.`;
        },
      },
      {
        label: "Start it again",
        needsPlay: true,
        run: async ({ cluster }) => {
          const { nodes } = await get<Play>(at(cluster.name, "play"));
          const gone = nodes.filter((one) => one.state === "down");
          for (const node of gone) await post(at(cluster.name, "play", "start"), { node: node.id });
          return gone.length ? `Node ${gone.map((one) => one.id).join(", ")} starts.` : "Every node runs.";
        },
      },
    ],
    look: { label: "To the X-ray", parts: ["xray", TOPIC, 0] },
    seen: async ({ topic }) => {
      const partition = (await topic())?.partitions[0];
      return partition ? `Leader ${partition.leader}, in epoch ${partition.leader_epoch}.` : null;
    },
  },
  {
    title: "Groups and rebalance",
    text: [
      "Consumers of one group share the partitions: each is read by one member. Where one comes or goes, the partitions are dealt anew, which is a rebalance. What a group has done is its committed offset; the rest is its lag.",
      "Run this in a terminal, and then in a second one:",
    ],
    command: (bootstrap) => `tidelog consume ${TOPIC} --group tour --follow --from beginning --bootstrap ${bootstrap}`,
    look: { label: "See the group", parts: ["groups", "tour", "members"] },
    seen: async ({ cluster }) => {
      const found = (await get<{ rows: GroupRow[] }>(at(cluster.name, "groups"), { search: "tour", limit: 20 })).rows.find((one) => one.group === "tour");
      return found ? `Group tour is ${found.state} with ${plural(found.members, "member")}.` : null;
    },
  },
  {
    title: "Transactions and the last stable offset",
    text: [
      "A transactional producer writes to many partitions all or nothing. Its records are in the log at once, but a read_committed consumer gets them only below the last stable offset, which stops at the first open transaction. A marker ends it.",
      "Run this: the transaction stays open for 20 seconds and holds the LSO of its partition.",
    ],
    command: (bootstrap) =>
      `python -c "import time; from tidelog import Producer\nwith Producer(bootstrap_servers='${bootstrap}', transactional_id='tour-1') as p:\n  with p.transaction(): p.send('${TOPIC}', b'all or nothing', partition=0); p.flush(); time.sleep(20)"`,
    look: { label: "See the LSO", parts: ["topics", TOPIC] },
    seen: async ({ cluster, topic }) => {
      const held = (await topic())?.partitions.find((one) => one.lso < one.hw);
      if (held) return `Partition ${held.partition}: LSO ${held.lso}, high watermark ${held.hw}.`;
      const known = rowsOf(await get<{ transactional_id: string; state: string }[]>(at(cluster.name, "transactions"))).find((one) => one.transactional_id === "tour-1");
      return known ? `Transaction tour-1 is ${known.state}.` : null;
    },
  },
  {
    title: "Compaction",
    text: [
      "A compacted topic keeps the last record of every key, for as long as there is one. It is how tables are kept in logs: group offsets and transactions live in such topics.",
      "Write ten values of two keys, then look again after some seconds: the old ones go, the offsets of the others stay.",
    ],
    acts: [
      {
        label: "Write ten values of two keys",
        run: async ({ cluster }) => {
          await make(cluster.name, COMPACTED, 1, { "cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "2000" });
          for (let i = 1; i <= 5; i += 1) for (const key of ["ann", "bob"]) await write(cluster.name, COMPACTED, key, `balance ${i}`);
          return "Ten records are written. The segment that is written to is never compacted: write once more after a moment.";
        },
      },
    ],
    look: { label: "Watch keys go", parts: ["topics", COMPACTED, "records"], query: { from: "earliest" } },
    seen: async ({ cluster }) => {
      try {
        const page = await get<RecordPage>(at(cluster.name, "topics", COMPACTED, "records"), { partition: "all", from: "earliest", limit: 500 });
        const end = page.end["0"] ?? 0;
        return end > 0 ? `${plural(page.records.length, "record")} of ${end} that were written.` : null;
      } catch {
        return null;
      }
    },
  },
  {
    title: "Retention",
    text: [
      "A log is not kept for ever. Whole segments are dropped when they are older than retention.ms, or the log is larger than retention.bytes. The log start offset moves; nothing is renumbered.",
      "This topic keeps records for five seconds. How often a node looks is log.retention.check.interval.ms, five minutes unless told otherwise, so have a little patience or set retention lower on a topic of your own.",
    ],
    acts: [
      {
        label: "Write to a topic that forgets",
        run: async ({ cluster }) => {
          await make(cluster.name, SHORT, 1, { "segment.ms": "1000", "retention.ms": "5000" });
          await put(at(cluster.name, "topics", SHORT, "configs"), { "retention.ms": "5000" });
          for (let i = 1; i <= 3; i += 1) await write(cluster.name, SHORT, null, `gone soon ${i}`);
          return "Three records are in the topic tour-short, for five seconds at least.";
        },
      },
    ],
    look: { label: "See its log start", parts: ["topics", SHORT] },
    seen: async ({ cluster }) => {
      try {
        const partition = (await get<Topic>(at(cluster.name, "topics", SHORT))).partitions[0];
        return partition && partition.hw > 0 ? `Log start ${partition.log_start}, end ${partition.hw}.` : null;
      } catch {
        return null;
      }
    },
  },
  {
    title: "An exactly-once Spark batch",
    text: [
      "A Spark query reads offsets in batches. The sink writes each batch in transactions and commits the batch's number with them: a batch that is run again after a crash finds that it is done, or is done once.",
      "Run a pipeline and see its batches here. In the X-ray of its source topic a record shows the batch that contains it.",
    ],
    command: () => "tidelog pipeline --help",
    look: { label: "See the pipelines", parts: ["pipelines"] },
    seen: async ({ cluster }) => {
      const found = rowsOf(await get<{ name: string; batches: number }[]>(at(cluster.name, "pipelines")));
      return found.length ? `${plural(found.length, "pipeline")}: ${found.map((one) => `${one.name}, ${one.batches} batches`).join("; ")}.` : null;
    },
  },
];
