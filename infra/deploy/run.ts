/**
 * `npm run package` and `npm run deploy`. Both build and package without an AWS account or network, then list missing and invalid parameters.
 * `deploy` calls AWS only if the list has no errors; otherwise it exits with 2.
 */
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { PARAMETERS, parameterTexts } from "@deltaloop/controllers/registry";
import { messageOf } from "@deltaloop/kube/objects";
import { alone } from "./alone.ts";
import { settingsOf, checkSettings } from "./check-settings.ts";
import { PASSED, storeProblems } from "./probe-store.ts";
import { wrongValuesIn } from "./values.ts";
import { scriptOptions } from "../build/script-options.ts";

const ROOT = process.cwd();
const OUT = ".serverless";
const LOCK = join(".cache", "deploy.lock");
const EXIT_REFUSED = 2;
const PURPOSES = {
  package: "Writes the CloudFormation template and the zips of the functions into .serverless; calls no AWS API.",
  deploy: "Packages deltaloop and deploys it to AWS.",
} as const;

async function main(): Promise<number> {
  const [, , verb] = process.argv;
  if (verb !== "package" && verb !== "deploy") throw new Error("usage: run.ts package|deploy [options]; see npm run package -- --help");
  const { values } = scriptOptions(verb, usage(verb), {
    args: process.argv.slice(3),
    options: {
      stage: { type: "string", default: "prod" },
      region: { type: "string" },
      param: { type: "string", multiple: true },
      params: { type: "string" },
      ...(verb === "deploy" && { probe: { type: "string" as const } }),
    },
  });
  const { stage, region, param = [] } = values;
  const probe = "probe" in values && typeof values.probe === "string" ? values.probe : undefined;
  const given = [...(values.params === undefined ? [] : await fromFile(values.params)), ...param];
  const unknown = given.map((each) => each.replace(/=.*/su, "")).filter((name) => !PARAMETERS.includes(name));
  if (unknown.length > 0) throw new Error(`unknown parameter ${unknown.join(", ")}; valid parameters: ${PARAMETERS.join(", ")}`);
  const params = given.map((each) => `--param=${each}`);
  const args = ["--stage", stage, ...(region === undefined ? [] : ["--region", region]), ...params];
  // osls deploys the contents of .serverless, so a concurrent run could deploy this run's template.
  return await alone(join(ROOT, LOCK), async () => await packageAndDeploy(verb, stage, args, probe));
}

async function packageAndDeploy(
  verb: "package" | "deploy",
  stage: string,
  args: readonly string[],
  probe: string | undefined,
): Promise<number> {
  const built = await run(process.execPath, [join(ROOT, "infra", "build", "build.ts")]);
  if (built !== 0) return built;
  const code = await osls(["package", ...args]);
  if (code !== 0) return code;
  const state: unknown = JSON.parse(await readFile(join(ROOT, OUT, "serverless-state.json"), "utf8"));
  const settings = settingsOf(stage, state);
  const { refused: missing, noted } = checkSettings(settings);
  const refused = [...wrongValuesIn(state), ...missing, ...(verb === "deploy" ? await storeProblems(settings, probe) : [])];
  if (verb === "package") {
    const heading = refused.length === 0 ? "Notes for the deployment" : "Missing or invalid; npm run deploy would refuse it";
    printList(`Packaged in ${OUT}/. ${heading}:`, [...refused, ...noted]);
    return 0;
  }
  if (refused.length > 0) {
    printList("Nothing was deployed. Missing or invalid:", refused);
    return EXIT_REFUSED;
  }
  if (noted.length > 0) printList("Notes:", noted);
  return await osls(["deploy", ...args]);
}

function usage(verb: "package" | "deploy"): string {
  return `${PURPOSES[verb]}

Usage: npm run ${verb} -- [options]

Options:
  --stage NAME           stage of the deployment (default: prod)
  --region NAME          AWS region (default: AWS_REGION, else us-east-1)
  --params FILE          YAML file of parameters, name: value (default: none)
  --param=name=value     one parameter; repeatable, overrides --params
${verb === "deploy" ? `  --probe URL            try each command on this Redis first (or ${PASSED}: it was tried in its VPC)\n` : ""}  --help                 print this text

Examples:
  npm run ${verb} -- --stage prod --params prod.yml
  npm run ${verb} -- --stage test --param=clusterId=0123456789ab
`;
}

/** Returns `["clusterId=0123456789ab", …]` without the empty values, which osls rejects. */
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

function printList(heading: string, lines: readonly string[]): void {
  process.stdout.write(`\n${heading}\n${lines.map((line) => `- ${line}\n`).join("")}`);
}

process.exitCode = await main().catch((error: unknown) => {
  process.stderr.write(`deploy: ${messageOf(error)}\n`);
  return EXIT_REFUSED;
});
