/** A container that runs but does not become ready, or does not complete its startup probe. */
import type { Probe } from "../evidence/pod-evidence.ts";
import { ofContainers } from "./finding.ts";
import type { Hit, Rule, WordsOf } from "./finding.ts";
import { eventsOf, listed, podName, timeOf } from "../incident/view.ts";
import type { RunContainer, View } from "../incident/view.ts";

const RANK = 50;
/** The API's defaults of probes. */
const [PERIOD_SECONDS, FAILURES, FAILURES_MS] = [10, 3, 1_000];

function hit(view: View, { pod, kind, spec, status }: RunContainer): readonly Hit[] {
  const startedMs = timeOf(status.state.running?.startedAt);
  if (kind === "init container" || status.ready || startedMs === undefined) return [];
  const isStarting = status.started === false && spec.startupProbe !== undefined;
  const probe = isStarting ? spec.startupProbe : spec.readinessProbe;
  if (probe === undefined) return [];
  // Waits for the probe's own limit or the time that earlier pods needed, whichever is longer.
  const since = Math.max(startedMs, pod.readySinceMs ?? startedMs);
  const patienceMs = Math.max(thresholdMs(probe), median(view.state.startsOf(pod.ownerUid ?? "")));
  if (view.nowMs - since <= patienceMs) return [];
  const word = isStarting ? "startup" : "readiness";
  const events = eventsOf(view, pod.uid, "Unhealthy");
  const failures = events.flatMap(({ message }) => listed(message) ?? []).filter(({ slots }) => slots["probe"] === word);
  const found = failures[0];
  const { code, port = probe.port } = found?.slots ?? {};
  return [
    {
      kind: found?.class ?? "probe failed",
      facts: {
        ...{ container: spec.name, probe: word, handler: probe.handler },
        ...(code !== undefined && { code }),
        ...(port !== undefined && { port }),
      },
      object: podName(pod),
      since,
      evidence: [`container ${spec.name} runs and is not ready`],
      events,
      ...(found === undefined && { confidence: "likely" as const }),
    },
  ];
}

function thresholdMs({ initialDelaySeconds = 0, periodSeconds = PERIOD_SECONDS, failureThreshold = FAILURES }: Probe): number {
  return (initialDelaySeconds + periodSeconds * failureThreshold) * FAILURES_MS;
}

function median(times: readonly number[]): number {
  return times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0;
}

const fails =
  (how: (facts: Readonly<Record<string, string>>) => string): WordsOf =>
  (facts, { namespace, first }) => ({
    cause: `the ${facts["probe"]} probe of container ${facts["container"]} fails${how(facts)}`,
    help: [`kubectl -n ${namespace} logs ${first} -c ${facts["container"]}`],
  });

export const readiness: Rule = {
  find: ofContainers(RANK, hit),
  words: {
    "probe status": fails(({ code }) => `: the application answers ${code}`),
    "probe refused": fails(({ port }) => `: connection refused${port === undefined ? "" : `, nothing listens on port ${port}`}`),
    "probe timeout": fails(() => ": no response in time"),
    "probe failed": fails(({ handler }) => (handler === "exec" ? ": its command fails" : "")),
  },
};
