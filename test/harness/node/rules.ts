/**
 * Rules of a node that hold at every moment, whatever happens to its agent (node-agent §0). A violation is an error at
 * once.
 * NR1 a pod has at most one READY sandbox.
 * NR2 a pod has at most one RUNNING container of a name.
 * NR3 nothing of a pod is created or started after its termination was requested.
 * NR4 a terminal phase is final; but a status that the API server executes late may undo it until the next sync.
 * NR5 before all sources are ready no running object of an unknown pod is stopped or removed.
 */
import type { NodePorts } from "../../../shared/node-agent/kubelet/node-ports/node-ports.ts";
import { LABELS } from "../../../shared/node-agent/kubelet/types/labels.ts";
import type { Cri } from "../../../shared/node-agent/ports/cri.ts";

export interface RuleInput {
  readonly cri: Cri;
  /** The pod of the container or sandbox. */
  readonly uid: string;
  /** The id of the container or sandbox. */
  readonly id: string;
  /** UIDs that the current agent knows. */
  readonly ports: NodePorts;
  readonly verb: string;
  /** UIDs that were being deleted when this agent started. */
  readonly deletedBefore: ReadonlySet<string>;
}

const MAKES: ReadonlySet<string> = new Set(["runPodSandbox", "createContainer", "startContainer"]);
const TAKES: ReadonlySet<string> = new Set(["stopContainer", "removeContainer", "stopPodSandbox", "removePodSandbox"]);

export function isChange(verb: string): boolean {
  return MAKES.has(verb) || verb === "updateContainerResources" || TAKES.has(verb) || verb === "pullImage" || verb === "execSync";
}

/** Called when the agent sends a call. @returns the violations */
export async function wrongToSend({ cri, uid, id, ports, verb, deletedBefore }: RuleInput): Promise<string | undefined> {
  if (TAKES.has(verb)) {
    if (ports.condition.sourcesReady || ports.pods.get(uid) !== undefined) return undefined;
    const [containers, sandboxes] = await Promise.all([cri.listContainers({ id }), cri.listPodSandbox({ id })]);
    const lives = containers[0]?.state === "CONTAINER_RUNNING" || sandboxes[0]?.state === "SANDBOX_READY";
    return lives ? `NR5 ${verb} of pod ${uid} before all sources are ready` : undefined;
  }
  if (!MAKES.has(verb)) return undefined;
  if (deletedBefore.has(uid)) return `NR3 ${verb} of pod ${uid}, which was being deleted before the agent started`;
  // The memory store answers with the current object.
  const record = await ports.store.read("workers", uid);
  return record?.terminatingAtMs === undefined ? undefined : `NR3 ${verb} of pod ${uid}, whose end was asked for`;
}

/** Called after a change. @returns the violations in the runtime's state */
export async function wrongInRuntime(cri: Cri): Promise<string | undefined> {
  const sandboxes = twice((await cri.listPodSandbox({ state: "SANDBOX_READY" })).map(({ metadata }) => metadata.uid));
  if (sandboxes !== undefined) return `NR1 two READY sandboxes of pod ${sandboxes}`;
  const running = await cri.listContainers({ state: "CONTAINER_RUNNING" });
  const names = twice(running.flatMap(({ id, labels }) => `${labels[LABELS.podUid] ?? id} ${labels[LABELS.containerName] ?? ""}`));
  return names === undefined ? undefined : `NR2 two RUNNING containers of ${names}`;
}

/** NR4, over every observed version of the API server's pods. */
export class Phases {
  readonly #terminal = new Map<string, string>();

  wrong(pods: Iterable<{ readonly uid: string; readonly phase: string | undefined }>): string | undefined {
    for (const { uid, phase } of pods) {
      const before = this.#terminal.get(uid);
      if (before !== undefined && before !== phase) return `NR4 pod ${uid} was ${before} and is ${phase}`;
      if (phase === "Succeeded" || phase === "Failed") this.#terminal.set(uid, phase);
    }
    return undefined;
  }
}

function twice(values: readonly string[]): string | undefined {
  return values.find((value, index) => values.indexOf(value) !== index);
}
