/**
 * Keeps container logs for the report about a failed upstream test: the test deletes its pod, and the node then deletes the pod's logs. A
 * hard link to each log file, made soon after the container starts, keeps its content.
 */
import { link, mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import type { Cluster } from "../support/e2e.ts";
import type { JudgedNode } from "../harness/node-processes/compared-node.ts";

const LOOK_MS = 250;
/** Lines reported per log file. */
const LINES_MAX = 12;
const LINE_CHARACTERS_MAX = 300;
const NAMESPACES = "/api/v1/namespaces?labelSelector=e2e-run";

export interface KeptLogs {
  /**
   * Returns a text report on all tests that have failed since the previous call, and deletes their namespaces. For each namespace it has
   * the container logs, containerd's log lines about these containers, and the agent's log lines about the namespace.
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
  /** Names of the symbolic links in the `containers` folder: `pod_namespace_container-id.log`. */
  const links = new Set<string>();
  const isKept = new Set<string>();
  const ended = new AbortController();
  const looking = look();
  return {
    async ofFailed() {
      // Namespaces of passed tests are terminating already.
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

  /** Returns an empty list if the folder does not exist. */
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
