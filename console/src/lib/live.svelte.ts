// What every screen shares of one cluster: its overview, pushed by the server every two seconds, or asked for while nothing is pushed.
import { at, get, listen } from "./api";
import type { Overview } from "./types";

class Live {
  overview: Overview | null = $state.raw(null);
  state: "off" | "open" | "lost" = $state("off");
  /** Counts up when topics came or went. */
  topicsChanged: number = $state(0);
  private stop: (() => void) | null = null;

  follow(cluster: string): () => void {
    this.stop?.();
    this.overview = null;
    this.state = "off";
    const source = listen(
      at(cluster, "events"),
      {},
      {
        overview: (data: Overview) => (this.overview = data),
        topics: () => (this.topicsChanged += 1),
      },
      (state) => (this.state = state),
    );
    get<Overview>(at(cluster, "overview")).then(
      (data) => (this.overview ??= data),
      () => undefined,
    );
    this.stop = () => source.close();
    return () => source.close();
  }
}

export const live = new Live();
