/** The output of `osls package` for serverless.yml, in a temporary folder, without credentials and network; the zips are empty files. */
import { spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { functionNames } from "../../infra/build/bundle.ts";

export interface Resource {
  readonly Type: string;
  readonly Condition?: string;
  readonly DeletionPolicy?: string;
  readonly UpdateReplacePolicy?: string;
  /** Empty if the template has no properties. */
  readonly Properties: Readonly<Record<string, unknown>>;
}

export interface Template {
  readonly Resources: Readonly<Record<string, Resource>>;
  readonly Parameters: Readonly<Record<string, { readonly Type: string; readonly Default?: unknown; readonly NoEcho?: boolean }>>;
  readonly Conditions: Readonly<Record<string, unknown>>;
  readonly Rules: Readonly<Record<string, { readonly Assertions: readonly { readonly AssertDescription: string }[] }>>;
  readonly Outputs: Readonly<Record<string, unknown>>;
}

const ROOT = process.cwd();
/** Part of the zips' names in S3: the only value in a template that changes between runs. */
export const DEPLOYED_AT = /\d{13}-\d{4}-\d\d-\d\dT[\d:.]+Z/g;

/** @throws with osls's output when it fails */
export async function packaged(stage: string, parameters: Readonly<Record<string, string>> = {}): Promise<Template> {
  const scratch = await mkdtemp(join(tmpdir(), "deltaloop-packaged-"));
  try {
    for (const file of ["serverless.yml", "infra", "package.json"]) await cp(join(ROOT, file), join(scratch, file), { recursive: true });
    await symlink(join(ROOT, "node_modules"), join(scratch, "node_modules"));
    await mkdir(join(scratch, "dist", "functions"), { recursive: true });
    for (const name of await functionNames(ROOT)) await writeFile(join(scratch, "dist", "functions", `${name}.zip`), "");
    const params = Object.entries(parameters).map(([name, value]) => `--param=${name}=${value}`);
    await offline(
      join(ROOT, "node_modules/.bin/osls"),
      ["package", "--stage", stage, "--package", join(scratch, "out"), ...params],
      scratch,
    );
    const text = await readFile(join(scratch, "out", "cloudformation-template-update-stack.json"), "utf8");
    const template = JSON.parse(text.replaceAll(DEPLOYED_AT, "<deployed at>")) as Template; // a CloudFormation template
    const resources = Object.entries(template.Resources).map(
      ([name, resource]) => [name, { ...resource, Properties: resource.Properties ?? {} }] as const,
    );
    return { ...template, Resources: Object.fromEntries(resources) };
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/**
 * Runs a program without credentials and with an unreachable proxy.
 * @returns its output
 */
export async function offline(program: string, parameters: readonly string[], cwd: string): Promise<string> {
  const nowhere = "http://127.0.0.1:9";
  const env = { PATH: process.env["PATH"] ?? "", HOME: cwd, HTTPS_PROXY: nowhere, HTTP_PROXY: nowhere, AWS_EC2_METADATA_DISABLED: "true" };
  const child = spawn(program, parameters, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const code = await new Promise<number | null>((resolve, reject) => child.once("error", reject).once("close", resolve));
  if (code !== 0) throw new Error(`${program} ${parameters.join(" ")} ended with ${code}:\n${output}`);
  return output.trim();
}
