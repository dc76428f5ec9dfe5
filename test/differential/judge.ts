/** Runs upstream's controllers in a separate process (judge/judge_test.go) and returns their results. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { exactText } from "../../shared/base/exact-json.ts";
import type { CachedResource, Controller } from "../../shared/kube/objects/resources.ts";
import type { PodTemplateSpec } from "../../shared/kube/objects/wire.ts";
import type { ApiResponse } from "../../shared/api-server/api-server.ts";
import type { ApiRequest } from "../../shared/api-server/rest/request-info.ts";
import type { Door, State } from "./shared-api-server.ts";
import type { Changed } from "./ours.ts";
import type { Sync } from "./outcome.ts";

/** Two templates as an API server stores them, their hashes, and whether they are equal except for the hash label. */
export interface Compared {
  readonly templates: readonly PodTemplateSpec[];
  readonly hashes: readonly string[];
  readonly equal: boolean;
}

interface Answer {
  readonly error?: string;
  readonly forgotten?: boolean;
  readonly events: readonly string[];
  readonly afterMs: readonly number[];
  readonly keys: readonly string[];
}

type Line =
  | { readonly request: ApiRequest & { readonly nowMs: number } }
  | { readonly answer: Answer }
  | { readonly templates: Compared }
  | { readonly watch: Watched }
  | { readonly quiet: { readonly nowMs: number } }
  | { readonly over: object };

/** The start of a history. `resync` 0 disables the resync. */
export interface Beginning {
  readonly controllers: readonly Controller[];
  readonly nowMs: number;
  readonly resyncMs: number;
  /**
   * Order of syncs. 0: when events arrive. 1: Deployments only after all due syncs of ReplicaSets. Other numbers: the seed of a random
   * order.
   */
  readonly patience: number;
}

/** A watch request: the version from which changes are delivered. */
export interface Watched {
  readonly resource: CachedResource;
  readonly resourceVersion: string;
}

/** The API server that the controllers use. */
export interface Served {
  /** Responds to a request that is sent at `nowMs`. */
  request(request: ApiRequest, nowMs: number): Promise<ApiResponse>;
  watch(watched: Watched): Promise<void>;
}

/** A watch event of the API server. */
export interface Told {
  readonly resource: CachedResource;
  readonly line: object;
}

/** Controllers that run until `end`; their clock stands still between two calls. */
export interface Living {
  /**
   * Runs until that time, or until there was a write and the controllers are idle.
   * @returns the new time
   */
  step(events: readonly Told[], untilMs: number): Promise<number>;
  end(): Promise<void>;
}

export interface Question {
  readonly controller: Controller;
  readonly key: string;
  readonly nowMs: number;
  /** The objects in the informers' caches. */
  readonly observed: State;
}

export interface Judge {
  /** Runs the controller's sync handler once; `door` responds to its requests. */
  sync(door: Door, asked: Question): Promise<Pick<Sync, "events" | "ending">>;
  /** Returns the keys that the controller queues when its informers, which already hold `observed`, deliver the change. */
  keys(door: Door, asked: Omit<Question, "key">, changed: Changed): Promise<readonly string[]>;
  /** Starts the controllers; no other call is allowed until they have ended. */
  live(server: Served, beginning: Beginning): Promise<Living>;
  compare(a: object, b: object, collisionCount?: number): Promise<Compared>;
  close(): void;
}

export function startJudge(program: string): Judge {
  const child = spawn(program, ["-test.run=TestJudge", "-test.timeout=0"], { stdio: ["pipe", "pipe", "pipe"], env: {} });
  let complaints = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (complaints = (complaints + text).slice(-10_000)));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const say = (value: object): void => void child.stdin.write(`${exactText(value)}\n`);
  const next = async (): Promise<Line> => {
    const { value, done } = await lines.next();
    if (done === true || !value.startsWith("{")) throw new Error(`upstream's program exited: ${value ?? ""}\n${complaints}`);
    return JSON.parse(value) as Line; // written by judge_test.go
  };
  const answered = async (door: Door, question: object): Promise<Answer> => {
    say(question);
    for (;;) {
      const line = await next();
      if ("answer" in line) return line.answer;
      if (!("request" in line)) throw new Error("unexpected type of response");
      const { status, ...answer } = await door.request(line.request);
      say({ status, body: answer.kind === "object" ? answer.body : {} });
    }
  };
  return {
    async sync(door, { observed, ...question }) {
      door.observe(observed);
      const { error, forgotten = false, events, afterMs } = await answered(door, { ...question, ...observed });
      const [first] = afterMs.toSorted((a, b) => a - b);
      const ok = first === undefined ? ({ kind: "done" } as const) : ({ kind: "again", afterMs: first } as const);
      return { events, ending: error === undefined || forgotten ? ok : { kind: "error", message: error } };
    },
    async keys(door, { observed, ...question }, changed) {
      const told = { resource: changed.resource, old: changed.old ?? null, new: changed.new ?? null };
      return (await answered(door, { ...question, ...observed, changed: told })).keys;
    },
    async compare(a, b, collisionCount) {
      say({ templates: [a, b], ...(collisionCount !== undefined && { collisionCount }) });
      const line = await next();
      if (!("templates" in line)) throw new Error("unexpected type of response");
      return line.templates;
    },
    async live(server, beginning) {
      const until = async (kind: "quiet" | "over"): Promise<Line> => {
        for (;;) {
          const line = await next();
          if (kind in line) return line;
          if ("watch" in line) {
            await server.watch(line.watch);
            continue;
          }
          if (!("request" in line)) throw new Error("unexpected type of response");
          const { nowMs, ...request } = line.request;
          const { status, ...answer } = await server.request(request, nowMs);
          say({ status, body: answer.kind === "object" ? answer.body : {} });
        }
      };
      say({ life: beginning });
      await until("quiet");
      return {
        async step(events, untilMs) {
          say({ events, untilMs });
          const line = await until("quiet");
          return "quiet" in line ? line.quiet.nowMs : untilMs;
        },
        async end() {
          say({ end: true });
          await until("over");
        },
      };
    },
    close: () => child.stdin.end(),
  };
}
