// The sentence of an event, which the server tells, and the colour of who acts.
import type { TraceEvent } from "../lib/types";

/** Without the node, which is shown beside it. */
export function sentence(event: TraceEvent): string {
  const said = typeof event.sentence === "string" ? event.sentence.replace(/^node \S+: /, "") : event.type.replaceAll("_", " ");
  return said.charAt(0).toUpperCase() + said.slice(1);
}

export function colourOf(type: string): string {
  if (/produce/.test(type)) return "var(--accent)";
  if (/hw_moved|lso_moved/.test(type)) return "var(--good)";
  if (/isr|role|truncated|refused|gap|dropped|^ended/.test(type)) return "var(--bad)";
  if (/fetch_answered|offset_committed|rebalanced/.test(type) && !/follower/.test(type)) return "var(--warn)";
  if (/appended|marker|index/.test(type)) return "var(--text)";
  return "var(--muted)";
}
