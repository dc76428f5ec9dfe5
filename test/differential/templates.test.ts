// Random templates, defaulted and through protobuf as an API server would, must have upstream's pod-template-hash, and be equal to one
// another exactly if upstream's EqualIgnoreHash says so. Would catch: a field, type or default that our layout has otherwise, and a
// digest that tells apart or mixes up what upstream does not.
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";

import { createDigester } from "../../shared/api/digest.ts";
import { podTemplateHash, podTemplateHashState } from "../../shared/api/pod-template-hash.ts";
import { strip } from "../../shared/api/strip.ts";
import type { KubeObject, PodTemplateSpec } from "../../shared/api/wire.ts";
import { arbitraryTemplate, neighbours, respelled } from "../unit/api/arbitrary-template.ts";
import { judgeProgram } from "./build.ts";
import { diceOf } from "./dice.ts";
import { startJudge } from "./judge.ts";

const TEMPLATES = 400;
/** Of each template, with as many others that are one change away. */
const NEIGHBOURS = 4;
const built = await judgeProgram();
const missing = "missing" in built ? built.missing : undefined;
const digester = createDigester("0123456789abcdef0123456789abcdef");

function digestOf(template: PodTemplateSpec): string | undefined {
  const metadata = { name: "d", namespace: "n", uid: "u", resourceVersion: "1" };
  const deployment: KubeObject = { metadata, spec: { replicas: 1, selector: {}, template } } as KubeObject; // a Deployment's
  return strip("deployments", deployment, digester).spec.template?.digest;
}

describe.skipIf(missing !== undefined)(`upstream's hash and equality of templates${missing === undefined ? "" : ` (${missing})`}`, () => {
  const judge = "program" in built ? startJudge(built.program) : undefined;
  afterAll(() => judge?.close());

  it(`${TEMPLATES} templates, each spelled otherwise and with ${NEIGHBOURS} changes`, { timeout: 120_000 }, async () => {
    if (judge === undefined) throw new Error("skipped");
    const wrong: string[] = [];
    const counts = { equal: 0, different: 0 };
    for (const [seed, template] of fc.sample(arbitraryTemplate, { numRuns: TEMPLATES, seed: 1 }).entries()) {
      const dice = diceOf(seed);
      const others = neighbours(template);
      const respelling = { change: "spelled otherwise", template: respelled(template, (n) => dice.int(0, n - 1)) };
      for (const { change, template: other } of [respelling, ...Array.from({ length: NEIGHBOURS }, () => dice.pick(others))]) {
        const collisionCount = dice.pick([[], [0], [1], [2_147_483_647]])[0];
        const got = await judge.compare(template, other, collisionCount);
        const hashes = got.templates.map((each) => podTemplateHash(podTemplateHashState(each), collisionCount));
        const [a, b] = got.templates.map(digestOf);
        counts[got.equal ? "equal" : "different"]++;
        if (hashes.join() !== got.hashes.join()) wrong.push(`${seed}, ${change}: hashes ${hashes.join()}, upstream's ${got.hashes.join()}`);
        if ((a === b) !== got.equal) wrong.push(`${seed}, ${change}: ${a === b ? "equal" : "not equal"}, and not so upstream`);
      }
    }
    expect(wrong).toEqual([]);
    expect(counts.equal).toBeGreaterThan(TEMPLATES * 0.9);
    expect(counts.different).toBeGreaterThan(TEMPLATES);
  });
});
