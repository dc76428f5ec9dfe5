/**
 * Random templates, defaulted and encoded as protobuf as an API server does it, must have upstream's pod-template-hash, and two templates
 * must be equal if and only if upstream's EqualIgnoreHash returns true.
 */
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";

import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { exactText, parseExact } from "../../shared/base/exact-json.ts";
import { podTemplateHash, podTemplateHashState } from "../../shared/kube/pod-template/pod-template-hash.ts";
import { strip } from "../../shared/kube/strip/strip.ts";
import type { KubeObject, PodTemplateSpec } from "../../shared/kube/objects/wire.ts";
import { arbitraryTemplateOf, neighbours, respelled } from "../unit/api/arbitrary-template.ts";
import { template } from "../unit/api/templates.ts";
import { COMPARED_RELEASE } from "./release.ts";
import { judgeProgram } from "./build.ts";
import { diceOf } from "./dice.ts";
import { startJudge } from "./judge.ts";

const TEMPLATES = 400;
/** For each template, the number of compared templates that differ in one change. */
const NEIGHBOURS = 4;
/** Pairs of integers that JavaScript numbers cannot distinguish: the first and second, and the third and fourth. */
const LONG = [9007199254740992n, 9007199254740993n, 9223372036854775806n, 9223372036854775807n, -9223372036854775808n];
const built = await judgeProgram();
const missing = "missing" in built ? built.missing : undefined;
const digester = createDigester("0123456789abcdef0123456789abcdef");

function digestOf(template: PodTemplateSpec): string | undefined {
  const metadata = { name: "d", namespace: "n", uid: "u", resourceVersion: "1" };
  const deployment: KubeObject = { metadata, spec: { replicas: 1, selector: {}, template } } as KubeObject; // the type of a Deployment's field
  return strip("deployments", deployment, digester).spec.template?.digest;
}

/** Returns the template as a watcher parses it. */
function asRead(template: PodTemplateSpec): PodTemplateSpec {
  const { spec } = parseExact(exactText({ spec: { template } })) as { readonly spec: { readonly template: PodTemplateSpec } };
  return spec.template;
}

describe.skipIf(missing !== undefined)(
  `hash and equality of templates equal upstream's${missing === undefined ? "" : ` (${missing})`}`,
  () => {
    const judge = "program" in built ? startJudge(built.program) : undefined;
    afterAll(() => judge?.close());

    it(`of ${TEMPLATES} templates, each also in another notation and with ${NEIGHBOURS} changes`, { timeout: 120_000 }, async () => {
      if (judge === undefined) throw new Error("skipped");
      const wrong: string[] = [];
      const counts = { equal: 0, different: 0 };
      for (const [seed, template] of fc.sample(arbitraryTemplateOf(COMPARED_RELEASE), { numRuns: TEMPLATES, seed: 1 }).entries()) {
        const dice = diceOf(seed);
        const others = neighbours(template, COMPARED_RELEASE);
        const respelling = { change: "spelled otherwise", template: respelled(template, (n) => dice.int(0, n - 1), COMPARED_RELEASE) };
        for (const { change, template: other } of [respelling, ...Array.from({ length: NEIGHBOURS }, () => dice.pick(others))]) {
          const collisionCount = dice.pick([[], [0], [1], [2_147_483_647]])[0];
          const got = await judge.compare(template, other, collisionCount);
          const hashes = got.templates.map((each) => podTemplateHash(podTemplateHashState(each, COMPARED_RELEASE), collisionCount));
          const [a, b] = got.templates.map(digestOf);
          counts[got.equal ? "equal" : "different"]++;
          if (hashes.join() !== got.hashes.join())
            wrong.push(`${seed}, ${change}: hashes ${hashes.join()}, upstream's ${got.hashes.join()}`);
          if ((a === b) !== got.equal) wrong.push(`${seed}, ${change}: ${a === b ? "equal" : "not equal"}, and not so upstream`);
        }
      }
      expect(wrong).toEqual([]);
      expect(counts.equal).toBeGreaterThan(TEMPLATES * 0.9);
      expect(counts.different).toBeGreaterThan(TEMPLATES);
    });

    it.each<{ field: string; spec: (n: bigint) => object }>([
      { field: "terminationGracePeriodSeconds", spec: (n) => ({ terminationGracePeriodSeconds: n }) },
      {
        field: "tolerationSeconds",
        spec: (n) => ({ tolerations: [{ key: "k", operator: "Exists", effect: "NoExecute", tolerationSeconds: n }] }),
      },
      { field: "supplementalGroups", spec: (n) => ({ securityContext: { runAsUser: n, supplementalGroups: [1, n] } }) },
    ])("of templates with long integers in $field", async ({ spec }) => {
      if (judge === undefined) throw new Error("skipped");
      const templates = LONG.map((n) => asRead(template({ spec: spec(n) })));
      const wrong: string[] = [];
      for (const [i, a] of templates.entries()) {
        for (const [j, b] of templates.entries()) {
          const got = await judge.compare(a, b);
          const hashes = [a, b].map((each) => podTemplateHash(podTemplateHashState(each, COMPARED_RELEASE)));
          if (hashes.join() !== got.hashes.join()) wrong.push(`${LONG[i]}, ${LONG[j]}: ${hashes.join()}, upstream's ${got.hashes.join()}`);
          if ((digestOf(a) === digestOf(b)) !== got.equal) wrong.push(`${LONG[i]}, ${LONG[j]}: equality is not upstream's`);
          if (got.equal !== (i === j)) wrong.push(`${LONG[i]}, ${LONG[j]}: upstream has read something else`);
        }
      }
      expect(wrong).toEqual([]);
    });
  },
);
