/** Adds a lane for each node, with the node's pods below it. */
import type { PodStep, SizeStep, TimelineInput, TimelineObject } from "../input.ts";

/** Nodes are appended to the objects, whose indexes therefore stay valid. */
export function byNode(input: TimelineInput): TimelineInput {
  const { objects } = input;
  const pods = Map.groupBy(
    objects.filter(({ kind, node }) => kind === "Pod" && node !== undefined),
    ({ node = "" }) => node,
  );
  const indexes = new Map([...pods.keys()].map((name, n) => [name, objects.length + n]));
  const moved = objects.map((object) => {
    const owner = object.kind === "Pod" ? indexes.get(object.node ?? "") : object.owner;
    return owner === undefined ? object : { ...object, owner };
  });
  return { ...input, objects: [...moved, ...[...pods].map(([name, own]) => nodeOf(name, own))] };
}

function nodeOf(name: string, pods: readonly TimelineObject[]): TimelineObject {
  return { kind: "Node", namespace: "", name, from: Math.min(...pods.map(({ from }) => from)), sizes: sizesOf(pods), changes: [] };
}

/** The number of pods on the node, and how many are ready. */
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
