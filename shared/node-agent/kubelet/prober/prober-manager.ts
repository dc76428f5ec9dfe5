/** Runs the probes of this node's pods when they are due (node-agent §11), independently of pod syncs. */
import type { PodStatus, ProbeKind, ProbeRecord } from "../../ports/node-store.ts";
import type { ProbeOutcome } from "../../ports/prober.ts";
import { isDeadlineExceeded } from "../../ports/cri-error.ts";
import { parseTime, messageOf } from "@deltaloop/kube/objects";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { initContainersOf, isTerminalPhase, type ContainerSpec, type ContainerStatusEntry, type NodePod } from "../types/pod.ts";
import { afterProbe, beforeProbe, firstDueMs, initialResult, nextDueMs, probeKey, probesOf, splitProbeKey } from "./probe.ts";
import type { ProbedContainer } from "./probe.ts";
import { execOutcome, PROBE_TRIES_MAX, probeNote, probeRequest } from "./probe-request.ts";
import { apiPodOf } from "../pod/pod-manager.ts";
import { enqueuePod, type EnqueuePorts } from "../pod-workers/update-worker.ts";
import { restartsAfter, type ObservedPod, type ProbeAnswer } from "../types/observed-pod.ts";

export interface PodProbes {
  readonly ensure: () => Promise<void>;
  readonly probeUnreadySoon: (status: PodStatus) => Promise<void>;
  readonly stop: (kinds: readonly ProbeKind[]) => Promise<void>;
  readonly answers: (observed: ObservedPod) => Promise<PodProbeResults>;
}

export function podProbes(ports: Pick<NodePorts, "store" | "clock" | "random" | "pods" | "condition">, pod: NodePod): PodProbes {
  return {
    ensure: () => ensureProbes(ports, pod),
    probeUnreadySoon: (status) => probeUnreadySoon(ports, pod, status),
    stop: (kinds) => stopProbes(ports, pod, kinds),
    answers: ({ containers }) => readProbeAnswers(ports, pod, (id) => containers.find((container) => container.id === id)?.name),
  };
}

/** Schedules each probe of the pod, unless the probe is already scheduled or stopped. */
async function ensureProbes(ports: Pick<NodePorts, "store" | "clock" | "random" | "pods" | "condition">, pod: NodePod): Promise<void> {
  const probes = probesOf(pod);
  if (probes.length === 0) return;
  const scheduled = await ports.store.agenda("probes");
  for (const { container, kind, spec } of probes) {
    const key = probeKey(pod.metadata.uid, container, kind);
    if (scheduled.has(key)) continue;
    const record = await ports.store.update("probes", key, (row) => row ?? resumed(ports, pod, container, kind));
    if (record?.stopped === true) continue;
    const { periodSeconds } = spec;
    const nowMs = ports.clock.now();
    const { startedAtMs } = ports.condition;
    await ports.store.schedule(
      "probes",
      key,
      firstDueMs({ agentStartedAtMs: startedAtMs, periodSeconds, nowMs, random: ports.random.next() }),
    );
  }
}

/**
 * A container that was started or ready before an agent restart keeps this state until its probe has another result. This prevents an
 * outage when the agent restarts. Source: pkg/kubelet/prober/worker.go ChangeContainerStatusOnKubeletRestart.
 */
function resumed(
  { condition, pods }: Pick<NodePorts, "pods" | "condition">,
  pod: NodePod,
  container: string,
  kind: ProbeKind,
): ProbeRecord | undefined {
  const entry = statusEntry(apiPodOf(pods, pod)?.status, container);
  const probed = probedContainer(entry);
  if (probed?.startedAtMs === undefined || probed.startedAtMs >= condition.startedAtMs || !probed.started) return undefined;
  const passed = kind === "startup" || (kind === "readiness" && entry?.ready === true);
  return passed ? { containerId: probed.id, result: "Success", run: 0 } : undefined;
}

/** If a started container is not ready, probes it immediately instead of after a full period. */
async function probeUnreadySoon(ports: Pick<NodePorts, "store" | "clock">, pod: NodePod, status: PodStatus): Promise<void> {
  const entries = [...(status.containerStatuses ?? []), ...(status.initContainerStatuses ?? [])];
  const waiting = new Set(entries.filter(({ started, ready }) => started === true && !ready).map(({ name }) => name));
  if (waiting.size === 0) return;
  const agenda = await ports.store.agenda("probes");
  for (const { container, kind } of probesOf(pod)) {
    const key = probeKey(pod.metadata.uid, container, kind);
    const dueMs = agenda.get(key);
    if (kind === "readiness" && waiting.has(container) && dueMs !== undefined && dueMs > ports.clock.now())
      await ports.store.schedule("probes", key, ports.clock.now());
  }
}

/** Stops the probes and keeps their results for the status. */
async function stopProbes(ports: Pick<NodePorts, "store">, pod: NodePod, kinds: readonly ProbeKind[]): Promise<void> {
  for (const { container, kind } of probesOf(pod))
    if (kinds.includes(kind)) await ports.store.unschedule("probes", probeKey(pod.metadata.uid, container, kind));
}

/** Deletes the probes of a deleted pod. */
export async function forgetProbes(ports: Pick<NodePorts, "store">, uid: string): Promise<void> {
  for (const key of (await ports.store.rows("probes")).keys())
    if (splitProbeKey(key).uid === uid) {
      await ports.store.unschedule("probes", key);
      await ports.store.update("probes", key, () => undefined);
    }
}

/** Runs the probe `key`, which was due at `dueMs`. Never throws because of a problem of the container. */
export async function runProbe(
  ports: EnqueuePorts & Pick<NodePorts, "cri" | "prober" | "podEvent">,
  key: string,
  dueMs: number,
): Promise<void> {
  const { uid, container: name, kind } = splitProbeKey(key);
  const pod = ports.pods.get(uid);
  const probe = pod && probesOf(pod).find((one) => one.container === name && one.kind === kind);
  if (pod === undefined || probe === undefined) return;
  const container = [...pod.spec.containers, ...initContainersOf(pod)].find((one) => one.name === name);
  if (container === undefined) return;
  const { spec } = probe;
  // Schedules the next run first, so that a crash cannot lose the probe.
  await ports.store.schedule("probes", key, nextDueMs(dueMs, spec.periodSeconds, ports.clock.now()));

  const status = (await ports.store.read("statuses", uid))?.status;
  const entry = statusEntry(status, name);
  const exitCode = entry?.state?.terminated?.exitCode;
  const step = beforeProbe({
    kind,
    spec,
    record: await ports.store.read("probes", key),
    nowMs: ports.clock.now(),
    container: probedContainer(entry),
    hasStatus: status !== undefined,
    phaseIsTerminal: isTerminalPhase(status?.phase),
    podIsDeleting: pod.metadata.deletionTimestamp !== undefined,
    isLast: exitCode !== undefined && !restartsAfter(pod, container, exitCode),
  });
  let record: ProbeRecord | undefined = step.record;
  let published = step.published;
  if (step.run && record !== undefined) {
    const { containerId } = record;
    const execution = { container, kind, spec, containerId, podIp: status?.podIP ?? "" };
    const outcome = await whileRunning(ports, { uid, name, containerId }, (signal) => execute(ports, pod, execution, signal));
    const after = afterProbe(kind, spec, record, outcome);
    record = after.record;
    published = after.published ?? published;
  }
  const next = record;
  const isGone = ports.pods.get(uid) === undefined; // the pod may have been removed while the probe ran
  if (isGone || next === undefined || next.stopped === true) await ports.store.unschedule("probes", key);
  if (isGone) return;
  await ports.store.update("probes", key, () => next);
  if (published !== undefined) await enqueuePod(ports, uid, `${kind} probe of ${name}: ${published}`);
}

function statusEntry(status: PodStatus | undefined, container: string): ContainerStatusEntry | undefined {
  return [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])].find(({ name }) => name === container);
}

function probedContainer(entry: ContainerStatusEntry | undefined): ProbedContainer | undefined {
  const id = entry?.containerID?.split("://")[1];
  if (entry === undefined || id === undefined) return undefined;
  const startedAtMs = parseTime(entry.state?.running?.startedAt);
  return {
    id,
    running: entry.state?.running !== undefined,
    ...(startedAtMs !== undefined && { startedAtMs }),
    started: entry.started === true,
  };
}

/** Interval at which to check whether the container of a running probe has ended. */
const ENDED_POLL_MS = 1_000;

/**
 * Returns the outcome of `run`, or `error` as soon as its container has ended, because the timeout of `run` may be very long. Differs
 * from upstream: prober_manager.go stops a worker only between probes.
 */
async function whileRunning(
  { clock, pods, store }: Pick<NodePorts, "store" | "clock" | "pods">,
  { uid, name, containerId }: { readonly uid: string; readonly name: string; readonly containerId: string },
  run: (signal: AbortSignal) => Promise<ProbeOutcome["result"]>,
): Promise<ProbeOutcome["result"]> {
  const runs = async (): Promise<boolean> => {
    const probed = probedContainer(statusEntry((await store.read("statuses", uid))?.status, name));
    return pods.get(uid) !== undefined && probed?.id === containerId && probed.running;
  };
  const [ended, abort] = [new AbortController(), new AbortController()];
  const outcome = run(abort.signal).finally(() => ended.abort());
  const end = async (): Promise<ProbeOutcome["result"]> => {
    do await clock.after(ENDED_POLL_MS, ended.signal);
    while (await runs());
    abort.abort();
    return "error";
  };
  return await Promise.race([outcome, end().catch(() => outcome)]);
}

interface Execution {
  readonly container: ContainerSpec;
  readonly kind: ProbeKind;
  readonly spec: Parameters<typeof probeRequest>[0];
  readonly containerId: string;
  readonly podIp: string;
}

/** An aborted probe emits no Event. */
async function execute(
  ports: Pick<NodePorts, "cri" | "prober" | "podEvent">,
  pod: NodePod,
  execution: Execution,
  signal: AbortSignal,
): Promise<ProbeOutcome["result"]> {
  let outcome: ProbeOutcome = { result: "error", output: "" };
  for (let attempt = 0; attempt < PROBE_TRIES_MAX && outcome.result === "error" && !signal.aborted; attempt++)
    outcome = await attemptOnce(ports, execution, signal);
  const note = signal.aborted ? undefined : probeNote(execution.kind, outcome);
  if (note !== undefined) ports.podEvent(pod, { ...note, container: execution.container.name });
  return outcome.result;
}

async function attemptOnce(
  ports: Pick<NodePorts, "cri" | "prober">,
  { container, spec, containerId, podIp }: Execution,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  const request = probeRequest(spec, container, podIp);
  switch (request.kind) {
    case "exec":
      return await exec(ports, containerId, request, signal);
    case "http":
      return await ports.prober.httpGet(request.request, signal);
    case "tcp":
      return await ports.prober.tcpSocket(request, signal);
    case "grpc":
      return (
        (await ports.prober.grpcHealth?.(request.request, signal)) ?? { result: "error", output: "this agent does not support gRPC probes" }
      );
    case "invalid":
      return { result: "error", output: request.message };
    default:
      throw new Error(`unknown request ${JSON.stringify(request satisfies never)}`);
  }
}

async function exec(
  { cri }: Pick<NodePorts, "cri">,
  containerId: string,
  { command, timeoutSeconds }: { readonly command: readonly string[]; readonly timeoutSeconds: number },
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  try {
    return execOutcome(await cri.execSync(containerId, command, timeoutSeconds, { signal }));
  } catch (error) {
    if (isDeadlineExceeded(error)) return { result: "Failure", output: `command timed out after ${timeoutSeconds}s` };
    return { result: "error", output: messageOf(error) };
  }
}

export interface PodProbeResults {
  readiness(containerId: string): ProbeAnswer;
  liveness(containerId: string): ProbeAnswer;
  startup(containerId: string): ProbeAnswer;
}

/**
 * Returns functions from container id to result. A result is undefined if there is no such probe, and is the initial result before the
 * first run. `nameOf` maps ids to container names.
 */
async function readProbeAnswers(
  { store }: Pick<NodePorts, "store">,
  pod: NodePod,
  nameOf: (containerId: string) => string | undefined,
): Promise<PodProbeResults> {
  const records = new Map<string, ProbeRecord | undefined>();
  for (const { container, kind } of probesOf(pod)) {
    const key = probeKey(pod.metadata.uid, container, kind);
    records.set(`${container}/${kind}`, await store.read("probes", key));
  }
  const answer = (kind: ProbeKind, containerId: string): ProbeAnswer => {
    const key = `${nameOf(containerId) ?? ""}/${kind}`;
    if (!records.has(key)) return undefined;
    const record = records.get(key);
    return record?.containerId === containerId && record.result !== undefined ? record.result : initialResult(kind);
  };
  return {
    readiness: (containerId) => answer("readiness", containerId),
    liveness: (containerId) => answer("liveness", containerId),
    startup: (containerId) => answer("startup", containerId),
  };
}
