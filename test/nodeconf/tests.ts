/** Which of upstream's tests judge a node, and how they are run. */
import type { TestOutcome, UpstreamTests } from "../upstream/program.ts";

/** Tests of the node that upstream labels otherwise: of Conformance some, of a feature of their own the rest. */
const RESIZE = "[sig-node] Pod InPlace Resize ";

/** Names hold their labels. Those that are slow, or want the node for themselves, run in nobody's ordinary run, upstream's neither. */
export async function nodeConformanceTests(upstream: UpstreamTests): Promise<readonly string[]> {
  const all = await upstream.all();
  return all.filter(
    (name) =>
      (name.includes("[NodeConformance]") || name.startsWith(RESIZE)) &&
      !/\[(?:Slow|Serial|Disruptive|Flaky)\]|\[sig-network\]/u.test(name),
  );
}

/**
 * Those that are known to pass and have ended within a few minutes all together, for every run. Probes wait for their thresholds and
 * updates for a pod's next turn, a minute and more each; `npm run nodeconf` has them.
 */
export function coreOf(names: readonly string[]): readonly string[] {
  return names.filter((name) => ![...LONG, ...LEFT_OUT.map(({ group }) => group)].some((text) => name.includes(text)));
}

const LONG = [RESIZE, "[sig-node] Probing container", "[FeatureGate:SidecarContainers]", "[sig-node] Lifecycle Sleep Hook", "updat"];

/** Parts of names: what the core leaves out because this agent or this ground does not pass it, with what it needs. */
export const LEFT_OUT: readonly { readonly group: string; readonly needs: string }[] = [
  { group: "[sig-node] PrivilegedPod", needs: "a kernel with links of type dummy; upstream's kubelet does not pass it here either" },
];

/** How many processes at once: nearly all a test does is wait. */
const AT_ONCE = 8;
/** Of one process: it starts in a second, and what it has found out is told at its end. */
const TESTS_PER_PROCESS = 4;

/** In the order in which they end. */
export async function runTests(
  upstream: UpstreamTests,
  names: readonly string[],
  options: { readonly kubeconfig: string; readonly signal?: AbortSignal; readonly ended?: (outcome: TestOutcome) => void },
): Promise<readonly TestOutcome[]> {
  const outcomes: TestOutcome[] = [];
  const waiting = [...names];
  const work = async (): Promise<void> => {
    for (let some = waiting.splice(0, share(waiting.length)); some.length > 0; some = waiting.splice(0, share(waiting.length)))
      for (const outcome of await upstream.runSome(some, options)) {
        outcomes.push(outcome);
        options.ended?.(outcome);
      }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return outcomes;
}

/** Less towards the end, so that no process is left with many. */
function share(left: number): number {
  return Math.min(TESTS_PER_PROCESS, Math.ceil(left / AT_ONCE));
}
