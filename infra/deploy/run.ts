/**
 * `npm run package` and `npm run deploy`, after the build. Both package first, with no account and no network, and say in one line each what
 * is missing; `deploy` goes on to AWS only when nothing refuses it.
 *
 *     npm run package -- --stage prod --param=clusterId=…        template and zips in .serverless
 *     npm run deploy -- --stage prod --params prod.yml            parameters from a file, `name: value`; --param=… on top of it
 *
 * Ends with 2 when something is missing for a deployment, and then nothing was made; else with what osls ended with.
 */
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { parseYaml } from "../../shared/adapters/system/yaml.ts";
import { messageOf } from "../../shared/api/errors.ts";
import { chosenIn, lacksOf } from "./lacks.ts";

const ROOT = process.cwd();
const OUT = ".serverless";
const EXIT_REFUSED = 2;

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      stage: { type: "string", default: "prod" },
      region: { type: "string" },
      param: { type: "string", multiple: true },
      params: { type: "string" },
    },
  });
  const [verb] = positionals;
  if ((verb !== "package" && verb !== "deploy") || positionals.length > 1)
    throw new Error("usage: run.ts package|deploy [--stage …] [--region …] [--params FILE] [--param=name=value …]");
  const { stage, region, param = [] } = values;
  const params = [...(values.params === undefined ? [] : await fromFile(values.params)), ...param].map((each) => `--param=${each}`);
  const args = ["--stage", stage, ...(region === undefined ? [] : ["--region", region]), ...params];
  const code = await osls(["package", ...args]);
  if (code !== 0) return code;
  const { refused, noted } = lacksOf(chosenIn(stage, JSON.parse(await readFile(join(ROOT, OUT, "serverless-state.json"), "utf8"))));
  if (verb === "package") {
    tell(refused.length === 0 ? `In ${OUT}/. To know before it is deployed:` : `In ${OUT}/. For a deployment this is missing:`, [
      ...refused,
      ...noted,
    ]);
    return 0;
  }
  if (refused.length > 0) {
    tell("Nothing was made. This is missing:", refused);
    return EXIT_REFUSED;
  }
  if (noted.length > 0) tell("To know:", noted);
  return await osls(["deploy", ...args]);
}

/** `["clusterId=0123456789ab", …]`; what is empty is left out, which means the same to osls. */
async function fromFile(path: string): Promise<readonly string[]> {
  const read = parseYaml(await readFile(path, "utf8"));
  if (typeof read !== "object" || read === null || Array.isArray(read)) throw new Error(`${path}: lines of \`name: value\``);
  return Object.entries(read).flatMap(([name, value]) => {
    if (!["string", "number", "boolean"].includes(typeof value)) throw new Error(`${path}: ${name} is neither text nor a number`);
    return value === "" ? [] : [`${name}=${String(value)}`];
  });
}

async function osls(args: readonly string[]): Promise<number> {
  const child = spawn(join(ROOT, "node_modules", ".bin", "osls"), args, { cwd: ROOT, stdio: ["ignore", "inherit", "inherit"] });
  return await new Promise((resolve, reject) => child.once("error", reject).once("close", (code) => resolve(code ?? 1)));
}

function tell(head: string, lines: readonly string[]): void {
  process.stdout.write(`\n${head}\n${lines.map((line) => `- ${line}\n`).join("")}`);
}

process.exitCode = await main().catch((error: unknown) => {
  process.stderr.write(`deploy: ${messageOf(error)}\n`);
  return EXIT_REFUSED;
});
