// Keyboard use: `/` focuses the search, `g` and a letter goes to a screen, `?` shows the sheet. Never while one types.
export const PLACES: [string, string, string[]][] = [
  ["o", "Overview", []],
  ["x", "X-ray", ["xray"]],
  ["t", "Topics", ["topics"]],
  ["g", "Groups", ["groups"]],
  ["r", "Transactions", ["transactions"]],
  ["p", "Pipelines", ["pipelines"]],
  ["q", "Quorum", ["quorum"]],
  ["d", "Log directories", ["logdirs"]],
  ["m", "Reassignments", ["reassignments"]],
  ["a", "ACLs", ["acls"]],
  ["u", "Users", ["users"]],
  ["l", "Audit log", ["audit"]],
];

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export function listenToKeys(acts: { search: () => void; sheet: () => void; go: (parts: string[]) => void; theme: () => void }): () => void {
  // When `g` was pressed; long ago at first, which 0 is not: a page is 0 ms old when it opens.
  let pending = -Infinity;
  function onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (performance.now() - pending < 1200) {
      pending = -Infinity;
      const place = PLACES.find(([key]) => key === event.key);
      if (place) {
        event.preventDefault();
        acts.go(place[2]);
      }
      return;
    }
    if (event.key === "g") pending = performance.now();
    else if (event.key === "/") {
      event.preventDefault();
      acts.search();
    } else if (event.key === "?") acts.sheet();
    else if (event.key === "t") acts.theme();
  }
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}
