/** Selects the upstream tests that run against a node, and runs them. */
import type { RunOptions, TestOutcome, UpstreamTests } from "../upstream/program.ts";

/** Node tests without the [NodeConformance] label: some have [Conformance], the others a label of their feature. */
const RESIZE = "[sig-node] Pod InPlace Resize ";

/** Conformance tests of the SIGs whose tests the test program contains. */
const CONFORMANCE = /^\[sig-(?:apps|cli|node|storage)\].*\[Conformance\]/u;
/** Labels that upstream's default run excludes: slow tests, and tests that need the node for themselves or rarely available features. */
const APART = /\[(?:Slow|Serial|Disruptive|Flaky|Alpha|Beta|Feature:[^\]]*)\]/u;
/** Tests that must not run in parallel with others. */
const ALONE = /\[(?:Serial|Disruptive)\]/u;

/**
 * Returns the names of all tests to run; a name contains its test's labels. From upstream's node suite, selects NodeConformance and
 * in-place resize, without slow and serial tests, which no default run includes. From the cluster suite, adds all of Conformance and the
 * sig-cli and sig-node tests of upstream's default run.
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

/** Reports whether the test is in the cluster suite and not in the node suite. */
export function isOfClusterSuite(name: string): boolean {
  if (name.includes("[NodeConformance]") || isOfNodeSuite(name)) return false;
  return CONFORMANCE.test(name) || (/^\[sig-(?:cli|node)\]/u.test(name) && !APART.test(name));
}

/**
 * Selects the tests for every e2e run: they pass, and together they take a few minutes. Of the node suite it excludes LONG, such as tests
 * that wait a minute or more for probe thresholds or a pod's next sync; `npm run nodeconf` runs those. Of the cluster suite it includes
 * SHORT: quick tests of the agent's server, or of behaviour that no other selected test covers.
 */
export function coreOf(names: readonly string[]): readonly string[] {
  return passableOf(names).filter((name) => {
    const isOneOf = (texts: readonly string[]): boolean => texts.some((text) => name.includes(text));
    return isOfClusterSuite(name) ? isOneOf(SHORT) : !isOneOf(LONG);
  });
}

/** Substrings of test names: tests of the node suite that coreOf excludes. */
export const LONG: readonly string[] = [
  RESIZE,
  "[sig-node] Probing container ",
  "[sig-node] Probing restartable init container ",
  "[sig-node] Restartable Init Container Lifecycle Hook ",
  "[sig-node] Lifecycle Sleep Hook ",
  "updat",
];

/** Substrings of test names: tests of the cluster suite that coreOf includes. */
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

/**
 * Substrings of test names: tests that fail in this environment, with what they need. A run includes one only if you ask for it by name.
 */
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

/** Returns the names without LEFT_OUT, except for tests that `asked` names. */
export function passableOf(names: readonly string[], asked: readonly string[] = []): readonly string[] {
  const leftOut = LEFT_OUT.filter(({ group }) => !asked.some((text) => text.includes(group)));
  return names.filter((name) => !leftOut.some(({ group }) => name.includes(group)));
}

/** Test processes in parallel; a test mostly waits. */
const AT_ONCE = 8;
/** Tests per process: a process starts within a second and reports its results when it ends. */
const TESTS_PER_PROCESS = 4;

/** Runs the tests and returns their outcomes in order of completion. */
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

/** Returns the size of the next batch. Batches shrink towards the end, so that all processes end at about the same time. */
function share(left: number): number {
  return Math.min(TESTS_PER_PROCESS, Math.ceil(left / AT_ONCE));
}

export function hasFailed({ state }: TestOutcome): boolean {
  return state === "failed" || state === "interrupted";
}
