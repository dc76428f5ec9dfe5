/** The tarball of the command and the SDK, as `npm pack` makes it, without what users of controllers do not need. */
import { spawn } from "node:child_process";
import { cp } from "node:fs/promises";
import { dirname, join } from "node:path";
import { bundleCli, bundleSdk } from "../../infra/build/bundle.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const PACKED = ["package.json", "README.md", "LICENSE", "docs", "examples/website"];

/** @param scratch an empty folder. @returns the path of the tarball in it */
export async function packInto(scratch: string): Promise<string> {
  const checkout = join(scratch, "checkout");
  for (const file of PACKED) await cp(join(ROOT, file), join(checkout, file), { recursive: true });
  await Promise.all([bundleCli(ROOT, join(checkout, "dist", "cli")), bundleSdk(ROOT, join(checkout, "dist", "sdk"))]);
  return join(scratch, (await runLine(checkout, "npm pack --ignore-scripts --silent --pack-destination ..")).trim());
}

/** The environment of a user with this Node and no cluster. @param bin a folder of programs that come first */
export function userEnvironment(bin = dirname(process.execPath)): Record<string, string | undefined> {
  const { KUBECONFIG: _ours, ...inherited } = process.env;
  const path = [bin, dirname(process.execPath), process.env["PATH"]].join(":");
  return { ...inherited, NO_COLOR: "1", npm_config_prefer_offline: "true", PATH: path };
}

/** Standard output and standard error of a command line. @throws with them when it fails */
export async function runLine(cwd: string, line: string, env = userEnvironment()): Promise<string> {
  const child = spawn("sh", ["-c", line], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const code = await new Promise((resolve) => child.once("close", resolve));
  if (code !== 0) throw new Error(`${line}: exit ${String(code)}: ${output}`);
  return output;
}

/** A command in a process group of its own, which `npx` starts. */
export interface Started {
  readonly output: () => string;
  /** Sends a signal to all its processes, and waits for their end. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

export function startLine(cwd: string, line: string, env = userEnvironment()): Started {
  const [program = "", ...args] = line.split(" ");
  const child = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  let isClosed = false;
  const closed = new Promise<void>((resolve) => {
    child.once("close", () => {
      isClosed = true;
      resolve();
    });
  });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (printed += text));
  return {
    output: () => printed,
    async stop(signal = "SIGINT") {
      if (child.pid !== undefined && !isClosed) process.kill(-child.pid, signal);
      await closed;
    },
  };
}
