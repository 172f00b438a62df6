// Rows that the server pages: what is scrolled to is asked for in pages and kept, a bounded number of them.
import { asProblem, type Problem } from "./api";

const PAGE = 100;
const PAGES_MAX = 60;

export class Pages<Row> {
  total: number = $state(0);
  problem: Problem | null = $state.raw(null);
  ready: boolean = $state(false);
  /** Counts up with every page, so that a table draws again. */
  version: number = $state(0);
  private pages = new Map<number, Row[]>();
  private asking = new Set<number>();
  private generation = 0;

  /** What is asked answers a page, or all rows at once. */
  constructor(private ask: (offset: number, limit: number) => Promise<{ total: number; rows: Row[] } | Row[]>) {}

  row(index: number): Row | undefined {
    void this.version;
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  need(first: number, last: number): void {
    for (let page = Math.floor(first / PAGE); page <= Math.floor((last - 1) / PAGE); page += 1) {
      if (!this.pages.has(page) && !this.asking.has(page)) void this.fetch(page);
    }
  }

  /** Asks anew: from the start where the filter changed, else for what is in sight, in place. */
  async reload({ keep = false } = {}): Promise<void> {
    if (!keep) {
      this.generation += 1;
      this.pages.clear();
      this.asking.clear();
      await this.fetch(0);
    } else {
      const known = [...this.pages.keys()].slice(-3);
      await Promise.all(known.length ? known.map((page) => this.fetch(page)) : [this.fetch(0)]);
    }
  }

  private async fetch(page: number): Promise<void> {
    const generation = this.generation;
    this.asking.add(page);
    try {
      const answer = await this.ask(page * PAGE, PAGE);
      if (generation !== this.generation) return;
      const total = Array.isArray(answer) ? answer.length : answer.total;
      if (Array.isArray(answer)) {
        this.pages.clear();
        for (let at = 0; at * PAGE < answer.length; at += 1) this.pages.set(at, answer.slice(at * PAGE, (at + 1) * PAGE));
      } else {
        this.pages.delete(page);
        this.pages.set(page, answer.rows);
      }
      if (!Array.isArray(answer) && this.pages.size > PAGES_MAX) this.pages.delete(this.pages.keys().next().value!);
      this.total = total;
      this.problem = null;
    } catch (error) {
      if (generation !== this.generation) return;
      this.problem = asProblem(error);
    } finally {
      this.asking.delete(page);
      if (generation === this.generation) {
        this.ready = true;
        this.version += 1;
      }
    }
  }
}
