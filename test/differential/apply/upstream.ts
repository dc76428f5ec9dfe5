/** Upstream's field manager in a process of its own. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { go } from "../../envtest/go-program.ts";
import { builtOfRelease, releaseModule } from "../../envtest/release-module.ts";
import type { Made, Played } from "./compare.ts";

const SOURCE = join(import.meta.dirname, "upstream/field_manager_test.go");
const FLAGS = ["-c", "-mod=readonly", "-buildvcs=false", "-trimpath", "-vet=off", "-ldflags", "-s -w"];

/** Its path; or one line with the reason why it cannot be built here. */
export async function fieldManagerProgram(): Promise<{ readonly program: string } | { readonly missing: string }> {
  const module = await releaseModule("control-plane");
  const built = await builtOfRelease({
    name: "field manager",
    takes: "about two minutes",
    module,
    files: [SOURCE],
    flags: FLAGS,
    program: "field-manager",
    build: (folder) => go(module, ["test", ...FLAGS, "-o", join(folder, "field-manager"), SOURCE]),
  });
  return "missing" in built ? built : { program: join(built.folder, "field-manager") };
}

export interface UpstreamFieldManager {
  play(played: Played): Promise<readonly Made[]>;
  close(): void;
}

export function startFieldManager(program: string): UpstreamFieldManager {
  const child = spawn(program, ["-test.run=TestFieldManager", "-test.timeout=0"], { stdio: ["pipe", "pipe", "pipe"], env: {} });
  let complaints = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (complaints = (complaints + text).slice(-10_000)));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async play({ subject: { kind, versions, types, roots }, steps }) {
      child.stdin.write(`${JSON.stringify({ kind, versions, types, roots, steps })}\n`);
      const { value, done } = await lines.next();
      if (done === true || !value.startsWith("[")) throw new Error(`the field manager ended: ${value ?? ""}\n${complaints}`);
      return JSON.parse(value) as readonly Made[]; // field_manager_test.go wrote it
    },
    close: () => void child.stdin.end(),
  };
}
