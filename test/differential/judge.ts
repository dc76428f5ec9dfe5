/** Upstream's controllers, in a process of their own (judge/judge_test.go), and what they answer. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import type { Controller } from "../../shared/api/resources.ts";
import type { PodTemplateSpec } from "../../shared/api/wire.ts";
import type { ApiRequest } from "../../shared/local/api-server/rest/request-info.ts";
import type { Door, State } from "./cluster.ts";
import type { Sync } from "./outcome.ts";

/** Two templates as an API server stores them, their hashes, and whether they are equal but for their hash labels. */
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
}

type Line = { readonly request: ApiRequest } | { readonly answer: Answer } | { readonly templates: Compared };

export interface Question {
  readonly controller: Controller;
  readonly key: string;
  readonly nowMs: number;
  /** What the informers hold. */
  readonly observed: State;
}

export interface Judge {
  /** One run of the controller's sync handler, whose requests go through `door`. */
  sync(door: Door, asked: Question): Promise<Pick<Sync, "events" | "ending">>;
  compare(a: object, b: object, collisionCount?: number): Promise<Compared>;
  close(): void;
}

export function startJudge(program: string): Judge {
  const child = spawn(program, ["-test.run=TestJudge", "-test.timeout=0"], { stdio: ["pipe", "pipe", "pipe"], env: {} });
  let complaints = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (complaints = (complaints + text).slice(-10_000)));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const say = (value: object): void => void child.stdin.write(`${JSON.stringify(value)}\n`);
  const next = async (): Promise<Line> => {
    const { value, done } = await lines.next();
    if (done === true || !value.startsWith("{")) throw new Error(`the judge ended: ${value ?? ""}\n${complaints}`);
    return JSON.parse(value) as Line; // judge_test.go says it
  };
  return {
    async sync(door, { observed, ...question }) {
      door.observe(observed);
      say({ ...question, ...observed });
      for (;;) {
        const line = await next();
        if ("request" in line) {
          const { status, ...answer } = await door.request(line.request);
          say({ status, body: answer.kind === "object" ? answer.body : {} });
        } else if ("answer" in line) {
          const { error, forgotten = false, events, afterMs } = line.answer;
          const [first] = afterMs.toSorted((a, b) => a - b);
          const ok = first === undefined ? ({ kind: "done" } as const) : ({ kind: "again", afterMs: first } as const);
          return { events, ending: error === undefined || forgotten ? ok : { kind: "error", message: error } };
        } else throw new Error("the judge answers another question");
      }
    },
    async compare(a, b, collisionCount) {
      say({ templates: [a, b], ...(collisionCount !== undefined && { collisionCount }) });
      const line = await next();
      if (!("templates" in line)) throw new Error("the judge answers another question");
      return line.templates;
    },
    close: () => child.stdin.end(),
  };
}
