/**
 * Credentials from the exec plugin of a kubeconfig.
 *
 * Source: client-go plugin/pkg/client/auth/exec/exec.go; pkg/apis/clientauthentication/types.go ExecCredential.
 */
import { execFile } from "node:child_process";
import { isAbsolute, join } from "node:path";
import * as v from "valibot";

import { messageOf } from "../objects/errors.ts";
import { environmentOfOthers } from "./environment-of-others.ts";
import { issueText } from "./issue-text.ts";
import { problemOfPair } from "./pem.ts";
import { isToken } from "./schema.ts";

const GROUP = "client.authentication.k8s.io";
/** Long enough for a login in a browser. */
const PLUGIN_MS_MAX = 60_000;
const OUTPUT_BYTES_MAX = 1024 * 1024;

export const ExecPlugin = v.object({
  apiVersion: v.picklist([`${GROUP}/v1`, `${GROUP}/v1beta1`]),
  command: v.pipe(v.string(), v.nonEmpty()),
  args: v.nullish(v.array(v.string()), []),
  env: v.nullish(v.array(v.object({ name: v.string(), value: v.nullish(v.string(), "") })), []),
  installHint: v.nullish(v.string(), ""),
  provideClusterInfo: v.nullish(v.boolean(), false),
  interactiveMode: v.nullish(v.picklist(["Never", "IfAvailable", "Always"]), "IfAvailable"),
});
export type ExecPlugin = v.InferOutput<typeof ExecPlugin>;

/** `spec.cluster` of an ExecCredential. */
export interface ExecCluster {
  readonly server: string;
  readonly "tls-server-name"?: string;
  readonly "insecure-skip-tls-verify"?: boolean;
  /** Base64. */
  readonly "certificate-authority-data"?: string;
  /** The extension of the kubeconfig's cluster for plugins. */
  readonly config?: unknown;
}

export interface Credentials {
  readonly token?: string;
  /** Client certificate and key, PEM. */
  readonly cert?: string;
  readonly key?: string;
  /** Time of expiry; absent if the credentials do not expire. */
  readonly expiresAtMs?: number;
}

/** Times as Go's encoding/json reads them. */
const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/** Go reads a `null` field as absent. */
const ExecCredential = v.object({
  apiVersion: v.string(),
  kind: v.literal("ExecCredential"),
  status: v.object({
    token: v.nullish(v.string()),
    clientCertificateData: v.nullish(v.string()),
    clientKeyData: v.nullish(v.string()),
    expirationTimestamp: v.nullish(
      v.pipe(
        v.string(),
        v.regex(RFC3339),
        v.check((text) => !Number.isNaN(Date.parse(text))),
      ),
    ),
  }),
});

/**
 * Runs the plugin with this process's environment without deltaloop's variables, and without standard input. A relative command with a
 * slash is resolved against the kubeconfig's `folder`.
 *
 * @throws {Error} with the plugin and the failure; never quotes standard output
 */
export async function runExecPlugin(plugin: ExecPlugin, folder: string, cluster: ExecCluster): Promise<Credentials> {
  const { apiVersion, command, installHint, interactiveMode, provideClusterInfo } = plugin;
  const called = `the credential plugin ${command}`;
  if (interactiveMode === "Always") throw new Error(`${called} needs a terminal (interactiveMode: Always), and has none`);
  const spec = { interactive: false, ...(provideClusterInfo && { cluster }) };
  const output = await run(isAbsolute(command) || !command.includes("/") ? command : join(folder, command), plugin.args, {
    ...Object.fromEntries(plugin.env.map(({ name, value }) => [name, value])),
    KUBERNETES_EXEC_INFO: JSON.stringify({ kind: "ExecCredential", apiVersion, spec }),
  }).catch((error: unknown) => {
    throw new Error(`${called} ${messageOf(error)}${installHint === "" ? "" : `\n${installHint}`}`);
  });
  const wrong = (what: string): Error => new Error(`${called} did not print an ExecCredential with a status: ${what}`);
  const printed = parsed(output);
  if (printed === undefined) throw wrong(output.trim() === "" ? "it printed nothing" : "what it printed is not JSON");
  const answer = v.safeParse(ExecCredential, printed.value);
  if (!answer.success) throw wrong(answer.issues.map(issueText).join(", "));
  const { apiVersion: answered, status } = answer.output;
  if (answered !== apiVersion) throw new Error(`${called} is configured for ${apiVersion}, but responded with ${answered}`);
  const { expirationTimestamp } = status;
  const [token, cert, key] = [status.token, status.clientCertificateData, status.clientKeyData].map((text) =>
    text === "" || text === null ? undefined : text,
  );
  if ((cert === undefined) !== (key === undefined))
    throw new Error(`${called} returned a certificate without a key, or a key without a certificate`);
  if (token === undefined && cert === undefined) throw new Error(`${called} returned neither a token nor a certificate`);
  if (token !== undefined && !isToken(token))
    throw new Error(`${called} returned an invalid token: it contains white space or a line break`);
  const problem = cert === undefined || key === undefined ? undefined : problemOfPair(cert, key);
  if (problem !== undefined) throw new Error(`${called} returned a certificate that ${problem}`);
  return {
    ...(token !== undefined && { token }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    expiresAtMs: typeof expirationTimestamp === "string" ? Date.parse(expirationTimestamp) : Number.POSITIVE_INFINITY,
  };
}

function run(file: string, args: readonly string[], environment: Readonly<Record<string, string>>): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { env: { ...environmentOfOthers(), ...environment }, timeout: PLUGIN_MS_MAX, maxBuffer: OUTPUT_BYTES_MAX };
    const plugin = execFile(file, [...args], options, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(whatHappened(error, stderr)));
    });
    plugin.stdin?.on("error", () => undefined);
    plugin.stdin?.end();
  });
}

function whatHappened({ code, killed, message }: Error & { readonly code?: unknown; readonly killed?: boolean }, stderr: string): string {
  if (code === "ENOENT") return "was not found";
  if (killed === true && code === null) return `did not exit within ${PLUGIN_MS_MAX / 1_000} s`;
  const said = stderr.trim().slice(0, 1_000);
  return typeof code === "number" ? `exited with code ${code}${said === "" ? "" : `: ${said}`}` : `could not be run: ${message}`;
}

/** A SyntaxError quotes the input, which may be a token. */
function parsed(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}
