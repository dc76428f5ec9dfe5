/** The cost of strip() for one parsed whole object of each kind, and of the pod template hash alone. */
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { podTemplateHash, podTemplateHashState } from "../../shared/kube/pod-template/pod-template-hash.ts";
import { strip } from "../../shared/kube/strip/strip.ts";
import type { PodTemplateSpec } from "../../shared/kube/objects/wire.ts";
import { KIND_SAMPLES, template } from "./objects.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const CALLS = 2_000;
const ROUNDS = 15;

export function bench(): readonly BenchResult[] {
  const digester = createDigester("bench");
  const spec = template() as PodTemplateSpec; // has the shape of a PodTemplateSpec
  return [
    ...KIND_SAMPLES.map(({ resource, object }) => measure(`strip of one of ${resource}`, () => strip(resource, object, digester))),
    measure("pod-template-hash of a template", () => podTemplateHash(podTemplateHashState(spec))),
    measure("digest of a template", () => digester.digest(spec)),
  ];
}

let sink: unknown;

function measure(name: string, work: () => unknown): BenchResult {
  const rounds: number[] = [];
  for (let round = -3; round < ROUNDS; round++) {
    const start = performance.now();
    for (let call = 0; call < CALLS; call++) sink = work();
    if (round >= 0) rounds.push(((performance.now() - start) / CALLS) * 1_000); // the first rounds warm up
  }
  if (sink === undefined) throw new Error("nothing was done");
  return benchResult(name, "µs", rounds);
}
