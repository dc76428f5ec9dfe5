/** Upstream's field manager in a separate process. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { testProgram } from "../build.ts";
import type { Made, Played } from "./compare.ts";
import type { Admitted, Custom } from "./custom.ts";

const SOURCES = ["field_manager_test.go", "custom_test.go"].map((file) => join(import.meta.dirname, "upstream", file));
/** The path of the program, or a one-line reason why it cannot be built. */
export async function fieldManagerProgram(): ReturnType<typeof testProgram> {
  return await testProgram({ name: "field manager", takes: "about two minutes", files: SOURCES });
}

/** Sends a request as JSON and returns the response. */
type Ask = (question: object) => Promise<unknown>;

/** Starts a Go test that answers questions on its standard input. */
export function start(program: string, test: string): { readonly ask: Ask; readonly close: () => void } {
  const child = spawn(program, [`-test.run=^${test}$`, "-test.timeout=0"], { stdio: ["pipe", "pipe", "pipe"], env: {} });
  let complaints = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (complaints = (complaints + text).slice(-10_000)));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async ask(question) {
      child.stdin.write(`${JSON.stringify(question)}\n`);
      const { value, done } = await lines.next();
      if (done === true || !/^[[{]/u.test(value)) throw new Error(`upstream's program exited: ${value ?? ""}\n${complaints}`);
      return JSON.parse(value);
    },
    close: () => void child.stdin.end(),
  };
}

export interface UpstreamFieldManager {
  play(played: Played): Promise<readonly Made[]>;
  close(): void;
}

export function startFieldManager(program: string): UpstreamFieldManager {
  const { ask, close } = start(program, "TestFieldManager");
  return {
    async play({ subject: { kind, versions, types, roots }, steps }) {
      return (await ask({ kind, versions, types, roots, steps })) as readonly Made[]; // written by field_manager_test.go
    },
    close,
  };
}

export interface UpstreamCustoms {
  admit(custom: Custom): Promise<Admitted>;
  close(): void;
}

export function startCustoms(program: string): UpstreamCustoms {
  const { ask, close } = start(program, "TestCustom");
  return {
    admit: async (custom) => (await ask(custom)) as Admitted, // written by custom_test.go
    close,
  };
}
