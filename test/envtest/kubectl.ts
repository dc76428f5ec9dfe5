import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Certificate } from "./pki.ts";

/** The result of a kubectl run. */
export interface KubectlResult {
  readonly stdout: string;
  readonly stderr: string;
  /** kubectl's exit code; 1 when a signal ended it. */
  readonly code: number;
}

/**
 * Runs `kubectl` until it exits, with `input` as its standard input.
 *
 * It does not use the user's preferences and discovery cache: the cache is keyed by host and port, which an earlier control plane may have
 * used.
 */
export async function runKubectl(
  kubectl: string,
  args: readonly string[],
  options: { readonly kubeconfig: string; readonly input: string | undefined; readonly cacheFolder: string },
): Promise<KubectlResult> {
  const child = spawn(kubectl, args, {
    stdio: "pipe",
    env: { ...process.env, KUBECONFIG: options.kubeconfig, KUBECACHEDIR: options.cacheFolder, KUBERC: "off" },
  });
  const output = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"] as const) {
    child[stream].setEncoding("utf8").on("data", (chunk: string) => (output[stream] += chunk));
  }
  child.stdin.on("error", () => undefined); // kubectl exited before it read all input; its exit code has the reason
  child.stdin.end(options.input);
  // Waits for `close`, not `exit`, because the output is complete only then. The cast follows the event's documentation.
  const [code] = (await once(child, "close")) as [number | null];
  return { ...output, code: code ?? 1 };
}

/** The credentials of a kubeconfig's user. */
export type KubeconfigUser =
  | { readonly "client-certificate-data": string; readonly "client-key-data": string }
  | { readonly token: string };

/** A user with a client certificate. */
export function certificateUser(identity: Certificate): KubeconfigUser {
  return { "client-certificate-data": base64(identity.certificate), "client-key-data": base64(identity.key) };
}

/** Returns a kubeconfig as JSON, which is valid YAML. It refers to no other files, so it can be copied. */
export function kubeconfig(server: string, ca: string, name: string, user: KubeconfigUser): string {
  const content = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "envtest", cluster: { server, "certificate-authority-data": base64(ca) } }],
    users: [{ name, user }],
    contexts: [{ name: "envtest", context: { cluster: "envtest", user: name } }],
    "current-context": "envtest",
  };
  return `${JSON.stringify(content, undefined, 2)}\n`;
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}
