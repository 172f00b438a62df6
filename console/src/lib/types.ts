// What the server answers, as docs/internals/console.md says it.
export type Cluster = {
  name: string; bootstrap: string; protocol: string; needs_login: boolean; user: string | null;
  mechanisms: string[]; can_play: boolean;
};
export type Session = { version: string; csrf: string; read_only: boolean; clusters: Cluster[] };

export type NodeRow = {
  id: number; host: string; port: number; rack: string | null; fenced: boolean; is_controller: boolean; leaders: number;
  replicas: number; under_replicated: number; log_bytes: number | null; traced: boolean; http: string | null;
};
export type Voter = { id: number; log_end_offset: number; lag: number; last_caught_up_ms_ago: number | null };
export type Quorum = { leader_id: number; leader_epoch: number; high_watermark: number; voters: Voter[]; observers: Voter[] };
export type Overview = {
  cluster_id: string; controller_id: number; software: string; nodes: NodeRow[]; quorum: Quorum | null;
  counts: { topics: number; partitions: number; under_replicated: number; offline: number; under_min_isr: number; groups: number };
  rates: { bytes_in: number | null; records_in: number | null };
};
export type History = { t: number[]; series: Record<string, (number | null)[]> };

export type TopicRow = {
  name: string; id: string; internal: boolean; partitions: number; replication: number; bytes: number | null;
  records: number | null; under_replicated: number; offline: number; rate: number | null;
};
export type Partition = {
  partition: number; leader: number; leader_epoch: number; replicas: number[]; isr: number[]; offline: number[];
  log_start: number; hw: number; lso: number; bytes: number | null; rate: number | null;
};
export type Config = {
  name: string; value: string | null; source: string; default: string | boolean | null; sensitive: boolean; read_only: boolean;
  type: string; doc: string | null;
};
export type TopicGroup = { group: string; type: string; state: string; lag: number | null; lag_seconds: number | null };
export type TopicProducer = {
  partition: number; producer_id: number; epoch: number; last_sequence: number; last_timestamp: number;
  transactional_open_since: number | null;
};
export type Topic = {
  name: string; id: string; internal: boolean; partitions: Partition[]; configs: Config[]; groups: TopicGroup[];
  producers: TopicProducer[];
};

export type Decoded = { format: string; text: string; bytes: number; truncated: boolean; problem?: string | null } | null;
export type RecordRow = {
  partition: number; offset: number; timestamp_ms: number; timestamp_type: string; leader_epoch?: number | null;
  key: Decoded; value: Decoded; headers: [string, Decoded][]; size: number;
};
export type RecordPage = {
  records: RecordRow[]; next: Record<string, number>; end: Record<string, number>; at_end: boolean;
};

export type GroupRow = {
  group: string; type: string; protocol: string; state: string; members: number; lag: number | null;
  lag_seconds: number | null; coordinator: number | null;
};
export type GroupMember = {
  id: string; instance: string | null; client_id: string; host: string; assignment: Record<string, number[]>;
};
export type GroupPartition = {
  topic: string; partition: number; committed: number | null; end: number | null; lag: number | null;
  lag_seconds: number | null; member: string | null; rate: number | null; why: string[];
};
export type Group = {
  group: string; type: string; state: string; epoch: number | null; coordinator: number | null; assignor: string | null;
  members: GroupMember[]; partitions: GroupPartition[]; why: string[];
};
export type OffsetPlan = { plan: { topic: string; partition: number; from: number | null; to: number | null }[]; applied: boolean };

// One event of a partition, a group or a transaction; more fields by type (docs/internals/trace.md).
export type TraceEvent = {
  type: string; node: number; seq: number; at_us: number; uncertainty_us: number; wall_ms?: number;
  [field: string]: unknown;
};
export type LiveState = {
  partition: { leader: number; replicas: number[]; isr: number[]; leader_epoch?: number | null; leo: number | null;
    hw: number | null; lso: number | null; log_start?: number };
  sources: TraceSource[];
};
export type TraceSource = { node: number; source: string; traced: boolean; offset_us: number | null; uncertainty_us: number | null; reason?: string };

export type Story = { sentence: string; source: string; at_ms?: number | null };
export type XrayRecord = {
  record: Partial<RecordRow> | null; batch: Record<string, unknown> | null; segment: Record<string, unknown> | null;
  index: Record<string, unknown> | null; epochs: [number, number][] | null;
  replicas: { node: number; leo: number | null; in_sync: boolean; lag: number | null; traced: boolean; where: string | null }[];
  hw: number; lso: number; commits: { group: string; committed: number; passed: boolean }[];
  spark: Record<string, unknown>[]; story: Story[];
};
export type ByteField = { name: string; start: number; end: number; value: unknown; meaning: string; record?: number | null };
export type XrayBytes = {
  position: number | null; file: string | null; hex: string; size?: number; truncated?: boolean; fields: ByteField[]; index_entry: Record<string, unknown> | null;
  segment_place: { segments: { base_offset: number; size: number }[]; file: string; position: number } | null;
};
export type Play = { nodes: { id: number; state: "running" | "held" | "down" }[] };
