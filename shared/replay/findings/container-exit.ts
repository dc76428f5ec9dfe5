/** A container that exits repeatedly. */
import { backOffOf, ofContainers, nextRestart } from "./finding.ts";
import type { Hit, Rule, WordsOf } from "./finding.ts";
import { eventsOf, listed, podName, timeOf } from "../incident/view.ts";
import type { RunContainer, View } from "../incident/view.ts";

const RANK = 40;
/** The kubelet resets its back-off after this time without an exit. */
const RECENT_MS = 10 * 60_000;
const SIGNAL_BASE = 128;
const SIGNALS: Readonly<Record<number, string>> = {
  4: "SIGILL",
  6: "SIGABRT",
  7: "SIGBUS",
  8: "SIGFPE",
  9: "SIGKILL",
  11: "SIGSEGV",
  15: "SIGTERM",
};

function hit(view: View, { pod, kind, spec, status }: RunContainer): readonly Hit[] {
  const { state, lastState, restartCount } = status;
  const ended = state.terminated ?? lastState.terminated;
  const isBackingOff = state.waiting?.reason === "CrashLoopBackOff";
  if (ended === undefined || ended.reason === "StartError" || ended.reason === "ContainerCannotRun") return [];
  const endedMs = timeOf(ended.finishedAt);
  const isDone = kind === "init container" && ended.exitCode === 0;
  const isRecent = endedMs === undefined || view.nowMs - endedMs < RECENT_MS;
  // A container that currently runs does not explain a missing pod, even if it was restarted before.
  if (isDone || (!isBackingOff && (status.ready || !isRecent || (restartCount === 0 && state.terminated?.exitCode === 0)))) return [];
  const code = ended.exitCode ?? 0;
  const killed = eventsOf(view, pod.uid, "Killing").some(({ message }) => {
    const found = listed(message);
    return found?.class === "killed by probe" && found.slots["container"] === spec.name;
  });
  const memory = spec.limits?.["memory"];
  const hooks = eventsOf(view, pod.uid, "FailedPostStartHook");
  const name = exitKind(ended.reason, code, { byProbe: killed, byHook: hooks.length > 0 });
  return [
    {
      kind: name,
      facts: {
        ...{ container: spec.name, of: kind, code: String(code) },
        ...(name === "container signalled" && { signal: SIGNALS[code - SIGNAL_BASE] ?? String(code - SIGNAL_BASE) }),
        ...(name === "container out of memory" && memory !== undefined && { memory }),
      },
      object: podName(pod),
      since: endedMs,
      evidence: [`${kind} ${spec.name} ended: ${ended.reason ?? "no reason"}, exit code ${code}`],
      restarts: restartCount,
      backOff: backOffOf(status),
      events: [...hooks, ...eventsOf(view, pod.uid, "BackOff")],
      // The Event does not name the container, and a hook also fails if the process exits by itself: the Event is only a possible reason.
      ...((killed || (name === "post-start hook failed" && (code === 0 || pod.spec.containers.length > 1))) && {
        confidence: "likely" as const,
      }),
    },
  ];
}

/** Exit code 137 means out of memory only with the reason OOMKilled. */
function exitKind(reason: string | undefined, code: number, killed: { readonly byProbe: boolean; readonly byHook: boolean }): string {
  if (reason === "OOMKilled") return "container out of memory";
  if (reason === "ContainerStatusUnknown") return "container lost";
  if (killed.byProbe) return "container killed";
  if (killed.byHook) return "post-start hook failed";
  if (code === 0) return "container completed";
  return code > SIGNAL_BASE && code < SIGNAL_BASE + 65 ? "container signalled" : "container failed";
}

const ends =
  (what: (facts: Readonly<Record<string, string>>) => string, ...help: readonly string[]): WordsOf =>
  (facts, { namespace, first }) => ({
    cause: `${facts["of"]} ${facts["container"]} ${what(facts)}`,
    next: nextRestart(facts),
    help: [...help, `kubectl -n ${namespace} logs ${first} -c ${facts["container"]} --previous`],
  });

export const containerExit: Rule = {
  find: ofContainers(RANK, hit),
  words: {
    "container out of memory": ends(
      ({ memory }) => `is killed: out of memory${memory === undefined ? ", without a limit of its own" : ` (limit ${memory})`}`,
      "raise resources.limits.memory, or find out what uses it",
    ),
    "container lost": ends(() => "was lost by the kubelet (ContainerStatusUnknown)"),
    "container killed": ends(() => "is killed after a failed liveness or startup probe"),
    "post-start hook failed": (facts, { namespace, first }) => ({
      cause: `${facts["of"]} ${facts["container"]} exits, because its postStart hook fails`,
      next: nextRestart(facts),
      help: [`kubectl -n ${namespace} describe ${first}`],
    }),
    "container completed": ends(() => "ends with exit code 0 and is restarted", "a Deployment needs a process that does not end"),
    "container signalled": ends(({ signal, code }) => `was killed by signal ${signal} (exit code ${code})`),
    "container failed": ends(({ code }) => `ends with exit code ${code}`),
  },
};
