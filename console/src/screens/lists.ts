// What each list shows, and what it says where there is nothing.
import { count, moment } from "../lib/format";

export type ListRow = Record<string, unknown>;
export type ListColumn = {
  key: string; label: string; width?: string; num?: boolean; wide?: boolean; mono?: boolean;
  text: (row: ListRow) => string; state?: (row: ListRow) => string;
};
export type ListDefinition = { path: string; title: string; searches: boolean; none: string; advice: string; columns: ListColumn[] };

const text = (name: string) => (row: ListRow) => {
  const value = row[name];
  if (value === null || value === undefined || value === "") return "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};
const number = (name: string) => (row: ListRow) => (typeof row[name] === "number" ? count(row[name]) : "–");

function entity(row: ListRow): string {
  const parts = Object.entries((row.entity ?? {}) as Record<string, string | null>);
  return parts.map(([kind, name]) => `${kind} ${name === null ? "(default)" : name}`).join(", ") || "–";
}

export const LISTS: Record<string, ListDefinition> = {
  acls: {
    path: "acls",
    searches: true,
    title: "ACLs",
    none: "No ACL",
    advice: "Without an authorizer everybody may do everything. tidelog acls add makes one.",
    columns: [
      { key: "principal", label: "Principal", width: "minmax(110px, 1fr)", text: text("principal") },
      { key: "permission", label: "Permission", width: "84px", text: text("permission"), state: (row) => (/deny/i.test(String(row.permission)) ? "bad" : "good") },
      { key: "operation", label: "Operation", width: "minmax(84px, 130px)", text: text("operation") },
      { key: "resource", label: "Resource", width: "minmax(120px, 1.4fr)", text: (row) => `${row.resource_type} ${row.name}` },
      { key: "pattern", label: "Pattern", width: "88px", wide: true, text: text("pattern") },
      { key: "host", label: "Host", width: "110px", wide: true, mono: true, text: text("host") },
    ],
  },
  users: {
    path: "users",
    searches: true,
    title: "Users",
    none: "No SCRAM user",
    advice: "tidelog users lists and changes them; users of PLAIN, TLS or OAuth are not kept in the cluster.",
    columns: [
      { key: "user", label: "User", width: "minmax(120px, 1fr)", text: text("user") },
      {
        key: "credentials", label: "Credentials", width: "minmax(160px, 2fr)",
        text: (row) => ((row.credentials ?? []) as { mechanism: string; iterations: number }[]).map((one) => `${one.mechanism}, ${count(one.iterations)} iterations`).join("; ") || "–",
      },
    ],
  },
  quotas: {
    path: "quotas",
    searches: true,
    title: "Quotas",
    none: "No quota",
    advice: "Every client may take what it can get. tidelog quotas sets how much.",
    columns: [
      { key: "entity", label: "For whom", width: "minmax(130px, 1fr)", text: entity },
      {
        key: "quotas", label: "How much", width: "minmax(160px, 2fr)",
        text: (row) => Object.entries((row.quotas ?? {}) as Record<string, number>).map(([name, value]) => `${name} ${count(value)}`).join(", ") || "–",
      },
    ],
  },
  pipelines: {
    path: "pipelines",
    searches: false,
    title: "Pipelines",
    none: "No pipeline is known",
    advice: "A pipeline of tidelog pipeline run that writes its audit topic shows up here with its batches.",
    columns: [
      { key: "name", label: "Pipeline", width: "minmax(120px, 1fr)", text: text("name") },
      { key: "state", label: "State", width: "104px", text: text("state"), state: (row) => (/fail|dead|stop/i.test(String(row.state)) ? "bad" : /run|ok|healthy|complete/i.test(String(row.state)) ? "good" : "") },
      { key: "batches", label: "Batches", num: true, width: "80px", text: number("batches") },
      { key: "lag", label: "Lag", num: true, width: "80px", text: number("lag") },
      { key: "dead_letters", label: "Dead letters", num: true, width: "92px", wide: true, text: number("dead_letters") },
      { key: "open_transactions", label: "Open transactions", num: true, width: "120px", wide: true, text: number("open_transactions") },
    ],
  },
  audit: {
    path: "audit",
    searches: false,
    title: "Audit log",
    none: "Nothing was changed through this console",
    advice: "Every change made here is written down: who, when, what, and how it ended.",
    columns: [
      { key: "at", label: "When", width: "178px", text: (row) => moment(row.at_ms as number) },
      { key: "user", label: "Who", width: "120px", wide: true, text: text("user") },
      { key: "action", label: "Did", width: "minmax(90px, 160px)", text: text("action") },
      { key: "what", label: "What", width: "minmax(120px, 2fr)", text: text("what"), wide: true },
      { key: "result", label: "Result", width: "104px", text: text("result"), state: (row) => (/^(done|ok|planned|dry.run)/i.test(String(row.result)) ? "good" : "bad") },
    ],
  },
};
