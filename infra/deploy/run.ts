/**
 * `npm run package` and `npm run deploy`. Both build and package first, with no account and no network, and say in one line each what
 * is missing; `deploy` goes on to AWS only when nothing refuses it.
 *
 *     npm run package -- --stage prod --param=clusterId=…        template and zips in .serverless
 *     npm run deploy -- --stage prod --params prod.yml            parameters from a file, `name: value`; --param=… on top of it
 *
 * Ends with 2 when something is missing or wrong for a deployment, and then nothing was made; else with what osls ended with.
 */
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { PARAMETERS, parameterTexts } from "@deltaloop/controllers/registry";
import { messageOf } from "@deltaloop/kube/objects";
import { alone } from "./alone.ts";
import { chosenIn, lacksOf } from "./lacks.ts";
import { wrongValuesIn } from "./values.ts";

const ROOT = process.cwd();
const OUT = ".serverless";
const LOCK = join(".cache", "deploy.lock");
const EXIT_REFUSED = 2;
const USAGE = "usage: npm run package|deploy -- [--stage NAME] [--region NAME] [--params FILE] [--param=name=value …]";

async function main(): Promise<number> {
  const { values, positionals } = flags();
  const [verb] = positionals;
  if ((verb !== "package" && verb !== "deploy") || positionals.length > 1) throw new Error(USAGE);
  const { stage, region, param = [] } = values;
  const given = [...(values.params === undefined ? [] : await fromFile(values.params)), ...param];
  const unknown = given.map((each) => each.replace(/=.*/su, "")).filter((name) => !PARAMETERS.includes(name));
  if (unknown.length > 0) throw new Error(`${unknown.join(", ")}: no parameter of a deployment; there are ${PARAMETERS.join(", ")}`);
  const params = given.map((each) => `--param=${each}`);
  const args = ["--stage", stage, ...(region === undefined ? [] : ["--region", region]), ...params];
  // osls reads again from .serverless what it deploys: of two runs at once one would give its stack the other's template.
  return await alone(join(ROOT, LOCK), async () => await make(verb, stage, args));
}

async function make(verb: "package" | "deploy", stage: string, args: readonly string[]): Promise<number> {
  const built = await run(process.execPath, [join(ROOT, "infra", "build", "build.ts")]);
  if (built !== 0) return built;
  const code = await osls(["package", ...args]);
  if (code !== 0) return code;
  const state: unknown = JSON.parse(await readFile(join(ROOT, OUT, "serverless-state.json"), "utf8"));
  const { refused: lacking, noted } = lacksOf(chosenIn(stage, state));
  const refused = [...wrongValuesIn(state), ...lacking];
  if (verb === "package") {
    tell(refused.length === 0 ? `In ${OUT}/. To know before it is deployed:` : `In ${OUT}/. For a deployment this is missing or wrong:`, [
      ...refused,
      ...noted,
    ]);
    return 0;
  }
  if (refused.length > 0) {
    tell("Nothing was made. This is missing or wrong:", refused);
    return EXIT_REFUSED;
  }
  if (noted.length > 0) tell("To know:", noted);
  return await osls(["deploy", ...args]);
}

function flags() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        stage: { type: "string", default: "prod" },
        region: { type: "string" },
        param: { type: "string", multiple: true },
        params: { type: "string" },
      },
    });
  } catch (error) {
    throw new Error(`${messageOf(error).replace(/\. .*/su, "")}\n${USAGE}`, { cause: error });
  }
}

/** `["clusterId=0123456789ab", …]`; what is empty is left out, which means the same to osls. */
async function fromFile(path: string): Promise<readonly string[]> {
  const text = await readFile(path, "utf8");
  try {
    return Object.entries(parameterTexts(text)).flatMap(([name, value]) => (value === "" ? [] : [`${name}=${value}`]));
  } catch (error) {
    throw new Error(`${path}: ${messageOf(error)}`);
  }
}

async function osls(args: readonly string[]): Promise<number> {
  return await run(join(ROOT, "node_modules", ".bin", "osls"), args);
}

async function run(program: string, args: readonly string[]): Promise<number> {
  const child = spawn(program, args, { cwd: ROOT, stdio: ["ignore", "inherit", "inherit"] });
  return await new Promise((resolve, reject) => child.once("error", reject).once("close", (code) => resolve(code ?? 1)));
}

function tell(head: string, lines: readonly string[]): void {
  process.stdout.write(`\n${head}\n${lines.map((line) => `- ${line}\n`).join("")}`);
}

process.exitCode = await main().catch((error: unknown) => {
  process.stderr.write(`deploy: ${messageOf(error)}\n`);
  return EXIT_REFUSED;
});
