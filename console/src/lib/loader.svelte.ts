// What a screen shows while it asks: the last good answer stays until the next one, so that nothing jumps.
import { asProblem, type Problem } from "./api";

export class Loader<T> {
  data: T | null = $state.raw(null);
  problem: Problem | null = $state.raw(null);
  busy: boolean = $state(false);
  private controller: AbortController | null = null;

  async load(ask: (signal: AbortSignal) => Promise<T>): Promise<void> {
    this.controller?.abort();
    const controller = (this.controller = new AbortController());
    this.busy = true;
    try {
      const data = await ask(controller.signal);
      if (controller.signal.aborted) return;
      this.data = data;
      this.problem = null;
    } catch (error) {
      if (controller.signal.aborted) return;
      this.problem = asProblem(error);
    } finally {
      if (this.controller === controller) this.busy = false;
    }
  }

  reset(): void {
    this.controller?.abort();
    this.data = null;
    this.problem = null;
    this.busy = false;
  }
}

/** Calls `again` now and then every `every` ms while the page is looked at; to be called in an effect. */
export function repeat(every: number, again: () => void): () => void {
  again();
  const timer = setInterval(() => {
    if (!document.hidden) again();
  }, every);
  return () => clearInterval(timer);
}
