// Explanations of recorded decisions: reasons, rules and wording.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { heading, storyText } from "../../cli/explain/explain-text.ts";
import { functionHandlers } from "../../cli/functions/functions.ts";
import { reasonInWords, sectionOf } from "../../cli/explain/reason-words.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { OWN_RELEASE } from "../../shared/kube/releases.ts";
import type { CaptureRecord } from "../../shared/replay/capture-format/capture.ts";
import { keyOf } from "../../shared/replay/capture-format/captured-object.ts";
import { FamilyCensus } from "../../shared/replay/explain/family.ts";
import type { Family } from "../../shared/replay/explain/family.ts";
import { storyOf, type Subject } from "../../shared/replay/explain/story.ts";
import { replay } from "../../shared/replay/engine/replay.ts";
import type { ReplayedSync } from "../../shared/replay/engine/sync-log.ts";
import { releaseOfCapture } from "../captures/releases.ts";
import { longCapture } from "../support/long-capture.ts";
import { silentLog } from "../support/silent-log.ts";
import { heldCapture, objectChanges, parseCapture, readCapture } from "../support/held-capture.ts";

const CAPTURES = join(import.meta.dirname, "../captures");
const names = readdirSync(CAPTURES).flatMap((file) => (file.endsWith(".watch.jsonl.gz") ? [file.replace(".watch.jsonl.gz", "")] : []));
const digester = createDigester("a key of this test alone");
const recordsOf = (name: string): ReturnType<typeof readCapture> => readCapture(join(CAPTURES, `${name}.watch.jsonl.gz`));

const replayed = new Map<string, Promise<readonly ReplayedSync[]>>();

/** Reads each recording once. */
function syncsOf(name: string): Promise<readonly ReplayedSync[]> {
  const known = replayed.get(name) ?? replayOf(name);
  replayed.set(name, known);
  return known;
}

async function replayOf(name: string): Promise<readonly ReplayedSync[]> {
  return syncsIn(recordsOf(name), name);
}

/** @param name the recording whose release decides; default: the current release */
async function syncsIn(records: readonly CaptureRecord[], name?: string, family?: Family): Promise<readonly ReplayedSync[]> {
  const syncs: ReplayedSync[] = [];
  const release = name === undefined ? OWN_RELEASE : releaseOfCapture(name);
  const options = { digester, seed: 1, release: () => release, log: silentLog, functions: functionHandlers, faults: () => ({}) };
  const holds = (record: CaptureRecord): boolean => family?.dependsOn(record) !== false;
  await replay(heldCapture(records), { ...options, holds, onSync: (sync) => void syncs.push(sync) });
  return syncs;
}

function familyIn(records: readonly CaptureRecord[], subject: Subject): Family {
  const census = new FamilyCensus([subject]);
  for (const record of records) census.see(record);
  return census.familyOf(subject);
}

async function linesOf(name: string, subject: Subject): Promise<readonly string[]> {
  const records = recordsOf(name);
  const story = storyOf(subject, objectChanges(records, digester), await syncsOf(name));
  return storyText(story, heldCapture(records), false).flatMap((text) => text.trimEnd().split("\n"));
}

describe("a replay of one owner tree", () => {
  it.each([
    ["adopt-release", "replicasets"],
    ["rollover", "deployments"],
    ["rollover", "replicasets"],
  ] as const)("%s: makes the same decisions for each of its %s as a replay of all objects", async (name, resource) => {
    const records = recordsOf(name);
    const keys = new Set(records.flatMap((record) => (record.resource === resource && record.object ? [keyOf(record.object)] : [])));
    for (const key of [...keys].filter((each) => !each.includes("undefined")).slice(-3)) {
      const [namespace = "", called = ""] = key.split("/");
      const family = familyIn(records, { resource, namespace, name: called });
      const own = (await syncsOf(name)).filter(family.concerns);
      expect(own.length, key).toBeGreaterThan(0);
      expect((await syncsIn(records, name, family)).filter(family.concerns), key).toEqual(own);
    }
  });

  it("runs no sync of another Deployment, nor of its ReplicaSets", async () => {
    const lines = longCapture({ deployments: 3, pods: 2, stepMs: 20 });
    const records = parseCapture(Array.from({ length: 150 }, () => String(lines.next().value)).join("\n"), "long");
    const family = familyIn(records, { resource: "deployments", namespace: "shop", name: "web-1" });
    const keys = new Set((await syncsIn(records, undefined, family)).map(({ key }) => key));
    expect([...keys].toSorted()).toEqual(["shop/web-1", "shop/web-1-r1", "shop/web-1-r2", "shop/web-1-r3"]);
  });
});

describe("gives reasons for each decision of each recording", () => {
  it.each(names)("%s", async (name) => {
    const syncs = await syncsOf(name);
    expect(syncs.length).toBeGreaterThan(0);
    for (const { controller, key, lines } of syncs) {
      const reasons = lines.flatMap((line) => (line.kind === "reason" ? [line.reason] : []));
      expect(reasons, `${controller} ${key} at ${lines.length} lines`).not.toEqual([]);
      const first = lines.findIndex(({ kind }) => kind === "decided");
      if (first !== -1)
        expect(
          lines.slice(0, first).some(({ kind }) => kind === "reason"),
          `${controller} ${key}: ${JSON.stringify(lines[first])}`,
        ).toBe(true);
      for (const reason of reasons) {
        expect(sectionOf(controller, reason)).toMatch(/^(?:deployment|replicaset) §\d+(?:\.\d+)?$/);
        expect(reasonInWords(reason)).not.toMatch(/undefined|NaN|\[object|^$/);
      }
    }
  });
});

it("reasons cite only sections of the specifications", async () => {
  const spec = ["deployment", "replicaset"].map(
    (name) => [name, readFileSync(join(import.meta.dirname, `../../docs/internals/spec/${name}.md`), "utf8")] as const,
  );
  const sections = new Set(
    spec.flatMap(([name, text]) => [...text.matchAll(/^#{2,3} (\d+(?:\.\d+)?)\.? /gm)].map(([, section]) => `${name} §${section}`)),
  );
  const named = (await Promise.all(names.map(syncsOf)))
    .flat()
    .flatMap(({ controller, lines }) => lines.flatMap((line) => (line.kind === "reason" ? [sectionOf(controller, line.reason)] : [])));
  expect(new Set(named.filter((section) => section === undefined || !sections.has(section)))).toEqual(new Set());
});

describe("the explanation of rollover", () => {
  const web: Subject = { resource: "deployments", namespace: "default", name: "web" };
  it("gives the reason and rule for scaling an old ReplicaSet down by one, and its outcome", async () => {
    const lines = await linesOf("rollover", web);
    expect(lines.map((line) => line.trim())).toEqual(
      expect.arrayContaining([
        "maxUnavailable 25% of 5 pods is rounded down to 1  [deployment §9]",
        "the sum of spec.replicas is 7, less the 4 that must be available (5 − 1), less 2 new ones that are not: 1 old pod may be deleted  [deployment §11.3]",
        "web-68b7c9b477 is old: it is scaled from 5 to 4  [deployment §11.3]",
        "→ patch ReplicaSet web-68b7c9b477: replicas 5 → 4; recorded 18 ms later",
        "maxSurge 25% of 5 pods is rounded up to 2  [deployment §9]",
        "the sum of spec.replicas may be 7 (5 desired + surge 2) and is 7: web-dcdd8499d stays at 2  [deployment §11.2]",
      ]),
    );
  });

  it("prints the same change of several pods as one line", async () => {
    const lines = await linesOf("rollover", web);
    expect(lines.join("\n")).toMatch(/pod\/web-\S+, pod\/web-\S+ created: phase Pending/);
  });

  it("explains the choice of a pod", async () => {
    const lines = await linesOf("rollover", { resource: "pods", namespace: "default", name: "web-68b7c9b477-scldh" });
    expect(lines.map((line) => line.trim())).toEqual(
      expect.arrayContaining([
        "web-68b7c9b477-scldh is deleted before web-68b7c9b477-mtfq7: they rank equal, and its uid is lower  [replicaset §8]",
        "→ delete pod web-68b7c9b477-scldh; recorded 29 ms later",
      ]),
    );
  });
});

it("one-by-one: explains pods that are kept, and a sync without writes", async () => {
  const lines = await linesOf("one-by-one", { resource: "deployments", namespace: "one-by-one", name: "web" });
  expect(lines.map((line) => line.trim())).toEqual(
    expect.arrayContaining([
      "web-77687479c-szvz8 is deleted before web-77687479c-pkzqx: they rank equal, and its uid is lower  [replicaset §8]",
      "web-77687479c-6kh8c is kept, and web-77687479c-szvz8 is deleted: its node has 1 pod of this controller, the other's 2  [replicaset §8]",
    ]),
  );
  const idle =
    "sync of deployment.apps/web → nothing to do: its new ReplicaSet has spec.replicas 3, all that are desired; no old ReplicaSet has replicas; its status is up to date";
  expect(lines.some((line) => line.endsWith(idle))).toBe(true);
});

it("rc-quota: reports a pod that the quota rejected, with the message", async () => {
  const lines = await linesOf("rc-quota", { resource: "replicationcontrollers", namespace: "default", name: "c" });
  const text = lines.join("\n");
  expect(text).toContain("3 desired, 2 exist: 1 to create  [replicaset §7]");
  const refusal = 'pods "c-cqgrf" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2';
  expect(text).toContain(`→ create 3 pods; in the recording 2 of the 3 were created, and the other was refused: ${refusal}`);
  expect(text).toContain("→ create 1 pod; in the recording it was refused with the same message");
  expect(text).toContain("+2.562s 8 syncs of replicationcontroller/c until +2.838s decide the same: create 1 pod");
  expect(text).toContain("replicationcontroller/c replicas 3 → 2 (kubectl)");
  expect(text).toContain("ReplicaFailure True (FailedCreate)");
});

it("starts with the object and the time of the recording", () => {
  const records = recordsOf("rollover");
  expect(heading({ resource: "deployments", namespace: "default", name: "web" }, heldCapture(records))).toMatch(
    /^deployment\.apps\/web -n default, from 2026-/,
  );
});
