// The server's answers: `get` and `send` return what it says or throw a Problem in its words.
import { session } from "./session.svelte";

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly advice: string,
  ) {
    super(message);
  }
}

export function asProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem(0, "ERROR", String(error), "");
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export function url(path: string, query: Query = {}): string {
  const parts = Object.entries(query)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return "api" + path + (parts.length ? "?" + parts.join("&") : "");
}

/** A path below one cluster; every part is escaped. */
export function at(cluster: string, ...parts: (string | number)[]): string {
  return "/c/" + [cluster, ...parts].map((part) => encodeURIComponent(part)).join("/");
}

async function ask<T>(method: string, path: string, query: Query, body: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (method !== "GET") {
    headers["X-Tidelog-Console"] = session.csrf;
    headers["Content-Type"] = "application/json";
  }
  let answer: Response;
  try {
    answer = await fetch(url(path, query), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "NO_CONSOLE", "The console's server does not answer.", "Look whether `tidelog console` is still running, then try again.");
  }
  const text = await answer.text();
  let said: unknown = null;
  try {
    said = text ? JSON.parse(text) : null;
  } catch {
    throw new Problem(answer.status, "NO_JSON", `The server answered ${answer.status} with something that is no JSON.`, "");
  }
  if (!answer.ok) {
    const { code, message, advice } = (said as { error?: { code: string; message: string; advice: string } })?.error ?? {
      code: String(answer.status),
      message: `The server answered ${answer.status}.`,
      advice: "",
    };
    if (answer.status === 401) session.loginNeeded(path);
    throw new Problem(answer.status, code, message, advice ?? "");
  }
  return said as T;
}

export const get = <T>(path: string, query: Query = {}, signal?: AbortSignal) => ask<T>("GET", path, query, undefined, signal);
export const post = <T>(path: string, body: unknown = {}) => ask<T>("POST", path, {}, body);
export const put = <T>(path: string, body: unknown = {}) => ask<T>("PUT", path, {}, body);
export const remove = <T>(path: string, query: Query = {}) => ask<T>("DELETE", path, query, undefined);

/** A list, or an object with its rows. */
export function rowsOf<T>(said: T[] | { rows: T[] } | null): T[] {
  return Array.isArray(said) ? said : (said?.rows ?? []);
}

/** Server-sent events by name until `close`; the browser connects again by itself. */
export function listen(
  path: string,
  query: Query,
  handlers: Record<string, (data: never) => void>,
  onState: (state: "open" | "lost") => void = () => {},
): { close: () => void } {
  const source = new EventSource(url(path, query));
  source.onopen = () => onState("open");
  source.onerror = () => onState("lost");
  for (const [name, handler] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handler(JSON.parse((event as MessageEvent<string>).data) as never));
  }
  return { close: () => source.close() };
}
