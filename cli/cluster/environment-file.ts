/** Files of DELTALOOP_* variables, one per line: written by `dev` for other commands, or by an operator. */
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { Option } from "commander";
import { messageOf } from "@deltaloop/kube/objects";
import type { KubeFlags } from "@deltaloop/kube/kubeconfig";
import type { Variables } from "@deltaloop/controllers/configuration";
import { UsageError } from "@deltaloop/base";

/** Name of the folder of `dev`, which contains the file `env`. */
export const DEV_FOLDER = "dev";

/** `NAME='value'` lines for `readEnvironmentFile`. No value contains both kinds of quotes. */
export function environmentFile(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => {
      const quote = value.includes("'") ? "`" : "'";
      return `${name}=${quote}${value}${quote}\n`;
    })
    .join("");
}

/** The options of commands that are configured like the watcher. */
export interface EnvironmentFlags {
  readonly env?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
}

export interface WatchersEnvironment {
  readonly variables: Variables;
  /** API server access by the options or the file; absent if the variables DELTALOOP_KUBE_* have it. */
  readonly kube?: KubeFlags;
}

/** The option of `watchersEnvironment`. */
export function environmentOption(): Option {
  return new Option(
    "--env <file>",
    "file with the watcher's DELTALOOP_* variables, one NAME=value a line (default: this process's environment, or that of the most recently started `deltaloop dev`)",
  );
}

/**
 * The watcher's environment: from a file, otherwise from this process if its environment has the variables, otherwise from this user's
 * newest `dev`. Sets AWS_REGION from the file: in another region, a secret or queue of the same name belongs to another deployment.
 * Credentials stay those of this process.
 *
 * @throws {UsageError} if no environment is found, or the file cannot be read
 */
export function watchersEnvironment({ env, kubeconfig, context }: EnvironmentFlags): WatchersEnvironment {
  const file = env ?? (process.env["DELTALOOP_DEPLOYMENT"] === undefined ? environmentOfDev() : undefined);
  const variables = file === undefined ? process.env : readEnvironmentFile(file);
  const region = variables["AWS_REGION"] ?? variables["AWS_DEFAULT_REGION"];
  if (region !== undefined) process.env["AWS_REGION"] = region;
  if (kubeconfig !== undefined) return { variables, kube: { kubeconfig, ...(context !== undefined && { context }) } };
  const { KUBECONFIG: path, KUBE_CONTEXT: its } = file === undefined ? {} : variables;
  const chosen = context ?? its;
  return { variables, ...(path !== undefined && { kube: { kubeconfig: path, ...(chosen !== undefined && { context: chosen }) } }) };
}

function environmentOfDev(): string {
  const files = readdirSync(tmpdir())
    .filter((name) => name.startsWith(`deltaloop-${DEV_FOLDER}-`))
    .flatMap((name) => ownFile(join(tmpdir(), name)) ?? [])
    .toSorted((one, other) => other.mtimeMs - one.mtimeMs);
  const [newest] = files;
  if (newest === undefined)
    throw new UsageError(
      "DELTALOOP_DEPLOYMENT is not set, and no deltaloop dev runs here: set the watcher's variables, or pass --env FILE",
    );
  process.stderr.write(`deltaloop: reading the environment of deltaloop dev, ${newest.path}\n`);
  return newest.path;
}

/** Accepts only files in a folder that no other user can write, because another user could otherwise insert their own Redis. */
function ownFile(folder: string): { readonly path: string; readonly mtimeMs: number } | undefined {
  const { uid, mode = 0 } = lstatSync(folder, { throwIfNoEntry: false }) ?? {};
  if (uid !== process.getuid?.() || (mode & 0o077) !== 0) return undefined;
  const path = join(folder, "env");
  const file = lstatSync(path, { throwIfNoEntry: false });
  return file && { path, mtimeMs: file.mtimeMs };
}

/** Reads the variables in a file. @throws {UsageError} if the file cannot be read */
export function readEnvironmentFile(path: string): Readonly<Record<string, string | undefined>> {
  try {
    return parseEnv(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${messageOf(error)}`);
  }
}
