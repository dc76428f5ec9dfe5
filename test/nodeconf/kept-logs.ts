/**
 * What is left to look at when one of upstream's tests has failed: it deletes its pod itself, and the node that pod's logs. Each log is kept
 * by a second link, from soon after its container's start on.
 */
import { link, mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import type { Cluster } from "../support/e2e.ts";
import type { JudgedNode } from "../harness/node-processes/compared-node.ts";

const LOOK_MS = 250;
/** Of one log, one program. */
const LINES_MAX = 12;
const LINE_CHARACTERS_MAX = 300;
const NAMESPACES = "/api/v1/namespaces?labelSelector=e2e-run";

export interface KeptLogs {
  /**
   * Of all tests that have failed since it was asked last, for people: what their containers wrote, what containerd said of these and the agent of
   * their namespaces, which go then.
   */
  ofFailed(): Promise<string>;
  stop(): Promise<void>;
}

interface Namespace {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
}

export async function keepLogs(cluster: Cluster, { containerd: { directory }, log }: JudgedNode): Promise<KeptLogs> {
  const folder = (name: string): string => join(directory, name);
  await mkdir(folder("kept"));
  /** By the name of their links: `pod_namespace_container-id.log`. */
  const links = new Set<string>();
  const isKept = new Set<string>();
  const ended = new AbortController();
  const looking = look();
  return {
    async ofFailed() {
      // Those of tests that passed are on their way out.
      const namespaces = (await cluster.list<Namespace>(NAMESPACES)).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
      const parts: string[] = [];
      for (const { metadata } of namespaces) {
        parts.push(...(await ofNamespace(metadata.name)));
        await cluster.kubectl("delete", "namespace", metadata.name, "--wait=false");
      }
      return parts.join("\n");
    },
    async stop() {
      ended.abort();
      await looking;
    },
  };

  async function look(): Promise<void> {
    while (!ended.signal.aborted) {
      for (const pod of await namesIn("pods"))
        for (const container of await namesIn("pods", pod))
          for (const file of await namesIn("pods", pod, container)) await keep(pod, container, file);
      for (const name of await namesIn("containers")) links.add(name);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  async function keep(pod: string, container: string, file: string): Promise<void> {
    const name = `${pod}_${container}_${file}`;
    if (isKept.has(name)) return;
    isKept.add(name);
    await link(join(folder("pods"), pod, container, file), join(folder("kept"), name)).catch(() => undefined);
  }

  /** None where the folder is not there, or not any more. */
  async function namesIn(...path: readonly string[]): Promise<readonly string[]> {
    return await readdir(join(directory, ...path)).catch(() => []);
  }

  async function ofNamespace(namespace: string): Promise<readonly string[]> {
    const logs = (await namesIn("kept")).filter((name) => name.startsWith(`${namespace}_`));
    const ids = [...links]
      .filter((name) => name.includes(`_${namespace}_`))
      .map((name) => name.slice(name.lastIndexOf("-") + 1, -".log".length));
    const containerdLog = await readFile(folder("containerd.log"), "utf8");
    return [
      ...(await Promise.all(logs.map(async (name) => part(name, await readFile(join(folder("kept"), name), "utf8"), () => true)))),
      part("containerd", containerdLog, (line) => ids.some((id) => line.includes(id))),
      part("agent", await log(), (line) => line.includes(namespace)),
    ];
  }
}

function part(title: string, text: string, isOf: (line: string) => boolean): string {
  const lines = text.split("\n").filter((line) => line !== "" && isOf(line));
  const shown = lines.slice(-LINES_MAX).map((line) => `\n    ${line.slice(0, LINE_CHARACTERS_MAX)}`);
  return `  ${title}, ${text.length} characters, ${lines.length} lines:${shown.join("")}`;
}
