/** Shows pods below their nodes: adds a lane for each node that has none. */
import type { PodStep, SizeStep, TimelineInput, TimelineObject } from "../input.ts";

/** The lanes are appended, so indexes stay valid. */
export function byNode(input: TimelineInput): TimelineInput {
  const { objects } = input;
  const pods = Map.groupBy(
    objects.filter(({ kind, node }) => kind === "Pod" && node !== undefined),
    ({ node = "" }) => node,
  );
  const known = new Map(objects.flatMap(({ kind, name }, index) => (kind === "Node" ? [[name, index] as const] : [])));
  const added = [...pods].filter(([name]) => !known.has(name));
  const indexes = new Map([...known, ...added.map(([name], n) => [name, objects.length + n] as const)]);
  const moved = objects.map((object) => {
    const owner = object.kind === "Pod" ? indexes.get(object.node ?? "") : object.owner;
    return owner === undefined ? object : { ...object, owner };
  });
  return { ...input, objects: [...moved, ...added.map(([name, own]) => nodeOf(name, own))] };
}

function nodeOf(name: string, pods: readonly TimelineObject[]): TimelineObject {
  return { kind: "Node", namespace: "", name, from: Math.min(...pods.map(({ from }) => from)), sizes: sizesOf(pods), changes: [] };
}

/** Returns the numbers of pods and of ready pods on the node over time. */
function sizesOf(pods: readonly TimelineObject[]): readonly SizeStep[] {
  const steps = pods.flatMap(({ from, until, states = [] }) => [
    { at: from, pods: 1, ready: 0 },
    ...states.map(([at], index) => ({ at, pods: 0, ready: isReady(states[index]) - isReady(states[index - 1]) })),
    ...(until === undefined ? [] : [{ at: until, pods: -1, ready: -isReady(states.at(-1)) }]),
  ]);
  let [count, ready] = [0, 0];
  const sizes = new Map<number, SizeStep>();
  for (const step of steps.toSorted((a, b) => a.at - b.at)) {
    [count, ready] = [count + step.pods, ready + step.ready];
    sizes.set(step.at, [step.at, count, ready, ready]);
  }
  return [...sizes.values()];
}

function isReady(step: PodStep | undefined): number {
  return step?.[1] === "ready" ? 1 : 0;
}
