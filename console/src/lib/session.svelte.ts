// Who one is and which clusters there are. Loaded once; a 401 of any request shows the login of its cluster.
import type { Cluster, Session } from "./types";

class SessionState {
  data: Session | null = $state(null);
  problem: string = $state("");
  /** The cluster whose login is to be shown, "" for none. */
  login: string = $state("");

  get csrf(): string {
    return this.data?.csrf ?? "";
  }
  get readOnly(): boolean {
    return this.data?.read_only ?? false;
  }
  cluster(name: string): Cluster | undefined {
    return this.data?.clusters.find((cluster) => cluster.name === name);
  }
  loginNeeded(path: string): void {
    const name = /^\/c\/([^/]+)/.exec(path)?.[1];
    if (name) this.login = decodeURIComponent(name);
  }
  async load(): Promise<void> {
    const { get, asProblem } = await import("./api");
    try {
      this.data = await get<Session>("/session");
      this.problem = "";
    } catch (error) {
      this.problem = asProblem(error).message;
    }
  }
}

export const session = new SessionState();
