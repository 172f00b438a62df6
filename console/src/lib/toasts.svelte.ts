// Short messages in the corner: what was done, or why not. Errors stay until they are closed.
import { asProblem } from "./api";

export type Toast = { id: number; kind: "good" | "bad"; text: string; advice: string };

class Toasts {
  list: Toast[] = $state([]);
  private next = 1;

  good(text: string): void {
    const id = this.add("good", text, "");
    setTimeout(() => this.close(id), 5000);
  }
  bad(error: unknown): void {
    const { message, advice } = asProblem(error);
    this.add("bad", message, advice);
  }
  close(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id);
  }
  private add(kind: Toast["kind"], text: string, advice: string): number {
    const id = this.next++;
    this.list = [...this.list, { id, kind, text, advice }].slice(-4);
    return id;
  }
}

export const toasts = new Toasts();
