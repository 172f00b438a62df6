// Routes in the hash: #/c/CLUSTER/PART/PART?name=value. Every state that is worth a link is in it.
export type Route = { cluster: string; parts: string[]; query: URLSearchParams };

function read(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(safely);
  const cluster = parts[0] === "c" ? (parts[1] ?? "") : "";
  return { cluster, parts: parts.slice(2), query: new URLSearchParams(query) };
}

function safely(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

class Router {
  route: Route = $state.raw(read());

  constructor() {
    addEventListener("hashchange", () => (this.route = read()));
  }

  /** The link to a place in the cluster that is shown, or in another. */
  to(parts: (string | number)[], query: Record<string, string | number | boolean | null | undefined> = {}, cluster = this.route.cluster): string {
    const said = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
    const tail = said.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`).join("&");
    return `#/c/${[cluster, ...parts].map((part) => encodeURIComponent(part)).join("/")}${tail ? "?" + tail : ""}`;
  }

  go(link: string): void {
    location.hash = link;
  }

  /** Changes the query of this place without a new step in the history. */
  set(query: Record<string, string | number | boolean | null | undefined>): void {
    const merged = new Map<string, string | number | boolean | null | undefined>([...this.route.query.entries()]);
    for (const [name, value] of Object.entries(query)) merged.set(name, value);
    const link = this.to(this.route.parts, Object.fromEntries(merged));
    if (link !== location.hash) {
      history.replaceState(null, "", link);
      this.route = read();
    }
  }
}

export const router = new Router();
