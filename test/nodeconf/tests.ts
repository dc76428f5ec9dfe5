/** Which of upstream's tests judge a node, and how they are run. */
import type { RunOptions, TestOutcome, UpstreamTests } from "../upstream/program.ts";

/** Tests of the node that upstream labels otherwise: of Conformance some, of a feature of their own the rest. */
const RESIZE = "[sig-node] Pod InPlace Resize ";

/** Of the parts of the cluster's suite that the program has. */
const CONFORMANCE = /^\[sig-(?:apps|cli|node|storage)\].*\[Conformance\]/u;
/** Those that upstream's ordinary run leaves out: they are slow, want the node for themselves, or something that few clusters have. */
const APART = /\[(?:Slow|Serial|Disruptive|Flaky|Alpha|Beta|Feature:[^\]]*)\]/u;
/** One at a time, with no other beside it. */
const ALONE = /\[(?:Serial|Disruptive)\]/u;

/**
 * Names hold their labels. What the node's suite has in common with the cluster's: those that are slow, or want the node for themselves,
 * run in nobody's ordinary run, upstream's neither. What the cluster's suite alone has: all of Conformance, at whatever pace, and what
 * else sig-cli and sig-node run as a matter of course.
 */
export async function nodeTests(upstream: UpstreamTests): Promise<readonly string[]> {
  const all = await upstream.all();
  return all.filter((name) => isOfNodeSuite(name) || isOfClusterSuite(name));
}

function isOfNodeSuite(name: string): boolean {
  return (
    (name.includes("[NodeConformance]") || name.startsWith(RESIZE)) && !/\[(?:Slow|Serial|Disruptive|Flaky)\]|\[sig-network\]/u.test(name)
  );
}

/** And not of the node's. */
export function isOfClusterSuite(name: string): boolean {
  if (name.includes("[NodeConformance]") || isOfNodeSuite(name)) return false;
  return CONFORMANCE.test(name) || (/^\[sig-(?:cli|node)\]/u.test(name) && !APART.test(name));
}

/**
 * Those that are known to pass and have ended within a few minutes all together, for every run. Probes wait for their thresholds and
 * updates for a pod's next turn, a minute and more each; `npm run nodeconf` has them. Of the cluster's suite some short ones that ask the
 * agent's server, or for what no other test of the core sees.
 */
export function coreOf(names: readonly string[]): readonly string[] {
  return passableOf(names).filter((name) => {
    const isOneOf = (texts: readonly string[]): boolean => texts.some((text) => name.includes(text));
    return isOfClusterSuite(name) ? isOneOf(SHORT) : !isOneOf(LONG);
  });
}

/** Parts of names: what of the node's suite is not in the core. */
export const LONG: readonly string[] = [
  RESIZE,
  "[sig-node] Probing container ",
  "[sig-node] Probing restartable init container ",
  "[sig-node] Restartable Init Container Lifecycle Hook ",
  "[sig-node] Lifecycle Sleep Hook ",
  "updat",
];

/** Parts of names: what of the cluster's suite is in the core. */
export const SHORT: readonly string[] = [
  "[sig-cli] Kubectl client Kubectl copy ",
  "[sig-cli] Kubectl client Kubectl events ",
  "[sig-cli] Kubectl client Simple pod should return command exit codes execing into a container with a failing command",
  "[sig-cli] Kubectl logs logs ",
  "[sig-cli] Kubectl Port forwarding With a server listening on localhost should support forwarding over websockets",
  "[sig-cli] kubectl debug custom profile should be applied on static profiles on ephemeral container",
  "[sig-node] ContainerTerminationMetrics ",
  "[sig-node] Pods Extended (pod generation) Pod Generation pod observedGeneration ",
  "[sig-node] Pods Extended Delete Grace Period ",
  "[sig-node] PodRejectionStatus ",
  "[sig-node] PreStop should call prestop ",
  "[sig-node] Security Context should support ",
  "[sig-node] Variable Expansion should allow ",
  "[sig-node] Variable Expansion should fail ",
];

/** Parts of names: what is left out of every run that does not ask for it, because this ground does not pass it, with what it needs. */
export const LEFT_OUT: readonly { readonly group: string; readonly needs: string }[] = [
  { group: "[sig-node] PrivilegedPod", needs: "a kernel with links of type dummy; upstream's kubelet does not pass it here either" },
  { group: "[sig-node] ImageVolume", needs: "a registry, and a containerd that mounts images" },
  { group: "[sig-node] Mount propagation", needs: "mounts of this machine that are shared, and a process named kubelet" },
  { group: "[sig-node] AppArmor", needs: "AppArmor" },
  { group: "RuntimeClass with scheduling without taints", needs: "a runtime handler of that name" },
  {
    group: "[FeatureGate:KubeletFineGrainedAuthz]",
    needs: "a curl in the image that speaks TLS as upstream's does, or with P-256 at least",
  },
  { group: "should rollback without unnecessary restarts", needs: "two nodes" },
  { group: "[sig-node] crictl", needs: "a cloud's machine" },
  { group: "[sig-node] SSH", needs: "a machine to go to with ssh" },
  { group: "Guestbook application", needs: "kube-proxy and the cluster's DNS; it waits ten minutes for them" },
  { group: "should handle in-cluster config", needs: "kube-proxy, and an API server that pods reach" },
  { group: "should support exec through an HTTP proxy", needs: "an API server that is not on loopback" },
];

/** Without what nobody passes on this ground, unless it is asked for by its name. */
export function passableOf(names: readonly string[], asked: readonly string[] = []): readonly string[] {
  const leftOut = LEFT_OUT.filter(({ group }) => !asked.some((text) => text.includes(group)));
  return names.filter((name) => !leftOut.some(({ group }) => name.includes(group)));
}

/** How many processes at once: nearly all a test does is wait. */
const AT_ONCE = 8;
/** Of one process: it starts in a second, and what it has found out is told at its end. */
const TESTS_PER_PROCESS = 4;

/** In the order in which they end. */
export async function runTests(
  upstream: UpstreamTests,
  names: readonly string[],
  options: RunOptions & { readonly ended?: (outcome: TestOutcome) => void },
): Promise<readonly TestOutcome[]> {
  const outcomes: TestOutcome[] = [];
  const waiting = names.filter((name) => !ALONE.test(name));
  const work = async (): Promise<void> => {
    for (let some = waiting.splice(0, share(waiting.length)); some.length > 0; some = waiting.splice(0, share(waiting.length)))
      for (const outcome of await upstream.runSome(some, options)) {
        outcomes.push(outcome);
        options.ended?.(outcome);
      }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  waiting.push(...names.filter((name) => ALONE.test(name)));
  await work();
  return outcomes;
}

/** Smaller batches towards the end, so that no process has many left. */
function share(left: number): number {
  return Math.min(TESTS_PER_PROCESS, Math.ceil(left / AT_ONCE));
}

export function hasFailed({ state }: TestOutcome): boolean {
  return state === "failed" || state === "interrupted";
}
