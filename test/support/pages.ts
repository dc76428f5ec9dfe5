/**
 * The code blocks of docs/start and docs/guides, and a function that runs them. A block's info string says where it runs:
 *
 *     sh                 in a checkout, without a cluster: run by `npm run check`
 *     sh setup           once, before all other blocks: run by test/tooling/fresh-machine.test.ts
 *     sh slow            in a checkout, for longer, or with kubectl: the e2e suite runs it
 *     sh cluster         with a cluster: the e2e suite runs it
 *     sh machine         on the machine that becomes a node: test/e2e/node-joins.test.ts follows it
 *     sh aws             with an AWS account: never run
 *     … background       keeps running while the next blocks run
 *     output             what the last block printed; `…` is any text, on a line of its own any lines
 *     output ctrl-c      what the command in the background has printed, after Ctrl-C
 *     yaml FILE, ini FILE, ts FILE    a file that the next blocks read
 */
import { execFile, spawn } from "node:child_process";
import { chmod, copyFile, cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { linkModules } from "./copied-modules.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "..", "..");
const PLACES = ["here", "setup", "slow", "cluster", "machine", "aws"] as const;
const COMMAND_MS_MAX = 120_000;
/** Output of a command in the background once it has started, and the time after it for the rest of the quoted output. */
const STARTED = /ready:|Ctrl-C/u;
const SETTLE_MS = 3_000;
/** Commands that build: `npm pack`, and the install of an example. */
const BUILDS = /npm pack|examples\/\S+ install/u;
/** Folders that a copied checkout lacks: two are created there, and tests are not packed. */
const NOT_COPIED = ["dist", "node_modules", "test"];

export type Place = (typeof PLACES)[number];

export type Block =
  | { readonly kind: "command"; readonly line: number; readonly place: Place; readonly background: boolean; readonly text: string }
  | { readonly kind: "output"; readonly line: number; readonly interrupted: boolean; readonly text: string }
  | { readonly kind: "file"; readonly line: number; readonly path: string; readonly text: string };

/**
 * Returns the blocks in the order of the page.
 * @throws {Error} if a block has no valid label
 */
export function blocksOf(page: string, text: string): readonly Block[] {
  return [...text.matchAll(/^( *)```(.*)\n([\s\S]*?)^ *```$/gmu)].map(([, indent = "", info = "", content = ""], i, all) => {
    const line = text.slice(0, all[i]?.index).split("\n").length;
    const body = content.replaceAll(new RegExp(`^${indent}`, "gmu"), "");
    const [language = "", ...words] = info.split(" ");
    const block = blockFrom(language, words, line, body);
    if (block === undefined) throw new Error(`${page}:${line}: a block must have a known label: \`\`\`${info}`);
    return block;
  });
}

function blockFrom(language: string, words: readonly string[], line: number, text: string): Block | undefined {
  if (language === "sh") {
    const background = words.at(-1) === "background";
    const [name = "here", ...rest] = background ? words.slice(0, -1) : words;
    const place = PLACES.find((one) => one === name);
    return place === undefined || rest.length > 0 ? undefined : { kind: "command", line, place, background, text };
  }
  if (language === "output" && words.every((word) => word === "ctrl-c"))
    return { kind: "output", line, interrupted: words.length > 0, text };
  const [path, ...rest] = words;
  if (["yaml", "ini", "ts"].includes(language) && path !== undefined && rest.length === 0) return { kind: "file", line, path, text };
  return undefined;
}

/** Returns whether the output `got` matches the quoted output `want`. */
export function isQuoted(want: string, got: string): boolean {
  const lines = want.trimEnd().split("\n");
  const pattern = lines
    .map((line, i) => (line.trim() === "…" ? "(?:.*\n)*?" : line.split("…").map(literal).join(".*") + (i < lines.length - 1 ? "\n" : "")))
    .join("");
  return new RegExp(`^${pattern}$`, "u").test(lines.at(-1)?.trim() === "…" ? `${got.trimEnd()}\n` : got.trimEnd());
}

const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/gu, String.raw`\$&`);

export interface Quotation {
  readonly line: number;
  readonly want: string;
  readonly got: string;
}

/**
 * Runs the commands of a page with a label in `places`, one after the other, in a folder that looks like a checkout; exported variables
 * are kept for the next commands. Returns the quoted outputs that differ, with the real ones.
 * @throws when a command fails
 */
export async function runPage(
  blocks: readonly Block[],
  places: readonly Place[],
  environment: Readonly<Record<string, string>> = {},
  programs: Readonly<Record<string, string>> = {},
): Promise<readonly Quotation[]> {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-page-"));
  const background: Background[] = [];
  try {
    const isCopied = blocks.some((block) => block.kind === "command" && BUILDS.test(block.text));
    const path = await checkoutIn(folder, programs, isCopied);
    const { KUBECONFIG: _ours, ...inherited } = process.env;
    const env = { ...inherited, NO_COLOR: "1", TERM: "dumb", ...environment, PATH: path };
    const quotations: Quotation[] = [];
    let printed: string | undefined;
    for (const block of blocks) {
      if (block.kind === "file") {
        if (!block.path.startsWith("/")) await writeFile(join(folder, block.path), block.text);
      } else if (block.kind === "output") {
        const got = block.interrupted ? await background.shift()?.interrupt() : printed;
        if (got !== undefined) quotations.push({ line: block.line, want: block.text, got });
      } else if (!places.includes(block.place)) {
        printed = undefined;
      } else if (block.background) {
        background.push(await start(block.text, folder, env));
      } else {
        const script = `set -euo pipefail\n[ ! -e .exported ] || . ./.exported\n{ ${block.text.trimEnd()}\n} 2>&1\ndeclare -px > .exported`;
        const options = { cwd: folder, env, timeout: COMMAND_MS_MAX, maxBuffer: 1 << 26 };
        ({ stdout: printed } = await run("bash", ["-c", script], options).catch((error: unknown) => {
          const { stdout = "" } = error as { readonly stdout?: string }; // the error of execFile
          throw new Error(`line ${block.line} fails: ${block.text}${stdout.slice(-4_000)}`, { cause: error });
        }));
      }
    }
    return quotations;
  } finally {
    await Promise.all(background.map((one) => one.interrupt()));
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Fills `folder` with symlinks to this checkout's folders and copies of its files. Returns a PATH on which `deltaloop` and `programs` are
 * found.
 * @param isCopied whether folders are copied too: npm omits symlinks from a tarball, and a build writes into the folders
 */
async function checkoutIn(folder: string, programs: Readonly<Record<string, string>>, isCopied: boolean): Promise<string> {
  await mkdir(join(ROOT, "dist"), { recursive: true }); // a build writes this folder, and its link must exist before
  for (const entry of await readdir(ROOT, { withFileTypes: true })) {
    const [from, to] = [join(ROOT, entry.name), join(folder, entry.name)];
    if (entry.isFile()) await copyFile(from, to);
    else if (entry.name.startsWith(".") || (isCopied && NOT_COPIED.includes(entry.name))) continue;
    else if (isCopied) await cp(from, to, { recursive: true, verbatimSymlinks: true });
    else await symlink(from, to);
  }
  if (isCopied) linkModules(ROOT, folder);
  const bin = join(folder, ".bin");
  await mkdir(bin);
  await writeFile(join(bin, "deltaloop"), `#!/bin/sh\nexec '${process.execPath}' '${join(ROOT, "cli/main.ts")}' "$@"\n`);
  await chmod(join(bin, "deltaloop"), 0o755);
  for (const [name, file] of Object.entries(programs)) await symlink(file, join(bin, name));
  return [bin, dirname(process.execPath), process.env["PATH"]].join(":");
}

interface Background {
  /** Sends Ctrl-C; resolves with all output. */
  interrupt(): Promise<string>;
}

async function start(text: string, cwd: string, env: NodeJS.ProcessEnv): Promise<Background> {
  const script = `[ ! -e .exported ] || . ./.exported\nexec ${text.trim()} 2>&1`;
  const child = spawn("bash", ["-c", script], { cwd, env, detached: true, stdio: ["pipe", "pipe", "inherit"] });
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (more: string) => void (printed += more));
  let open = true;
  const closed = new Promise<void>((resolve) => void child.once("close", () => resolve(void (open = false))));
  const deadline = Date.now() + COMMAND_MS_MAX;
  while (open && Date.now() < deadline && !STARTED.test(printed)) await sleep(100);
  await sleep(SETTLE_MS);
  if (!open || !STARTED.test(printed)) throw new Error(`did not start: ${text}\n${printed}`);
  return {
    async interrupt() {
      if (open) process.kill(-(child.pid ?? 0), "SIGINT");
      const killer = setTimeout(() => open && process.kill(-(child.pid ?? 0), "SIGKILL"), 15_000);
      await closed;
      clearTimeout(killer);
      return printed;
    },
  };
}
