/** Controllers whose result differs in each sync, in the real pipeline. */
import { expect, it } from "vitest";
import { customResource, defineController, s } from "../../../shared/sdk/index.ts";
import { Secret } from "../../../shared/sdk/kinds.ts";
import { openWorld } from "../../../shared/test-kit/simulation.ts";

const Probe = customResource({
  group: "demo.example.com",
  version: "v1",
  kind: "Probe",
  spec: s.object({ every: s.string().optional() }),
  status: s.object({ checkedAt: s.string().optional(), seen: s.integer().optional() }),
});
const probe = (every?: string) => Probe({ metadata: { name: "a", namespace: "shop" }, spec: every === undefined ? {} : { every } });
const HOT = 10;

/** Returns another number for each sync. The World runs each sync twice, and reports a difference between the results. */
function counter(): () => string {
  let calls = 0;
  return () => String(Math.floor(calls++ / 2));
}

const inStatus = (next = counter()) => defineController({ name: "probe", for: Probe, sync: () => ({ status: { checkedAt: next() } }) });
const inBody = (next = counter()) =>
  defineController({
    ...{ name: "probe", for: Probe, owns: [Secret] },
    sync: () => ({ apply: [Secret({ metadata: { name: "a" }, stringData: { at: next() } })] }),
  });
const inName = (next = counter()) =>
  defineController({
    ...{ name: "probe", for: Probe, owns: [Secret] },
    sync: () => ({ apply: [Secret({ metadata: { name: `a-${next()}` } })] }),
  });

it.each([
  { what: "a status", controller: inStatus, says: "status differs in each sync (status.checkedAt)", perSync: 1 },
  { what: "a body", controller: inBody, says: "Secret shop/a differs in each sync (stringData.at)", perSync: 1 },
  { what: "a name", controller: inName, says: "differs in each sync (metadata.name)", perSync: 2 },
])("backs off further after each sync that returns $what different from the last", async ({ controller, says, perSync }) => {
  const notes: string[] = [];
  const w = await openWorld({ controllers: [controller()] }, { onReport: ({ note }) => void (note === undefined || notes.push(note)) });
  await w.apply(probe());
  await w.advance("10m");
  const waits = 9; // 1 s + 2 s + ... + 256 s
  expect(w.writes().length).toBeLessThanOrEqual((HOT + waits + 1) * perSync);
  expect(w.writes().length).toBeGreaterThan(HOT);
  expect(notes.join("\n")).toContain(`${says}: waits`);
});

it("does not back off for syncs that `again` requests", async () => {
  const controller = defineController({
    ...{ name: "probe", for: Probe, owns: [Secret] },
    sync: ({ now }) => {
      const at = new Date(Math.floor(now.getTime() / 2_000) * 2_000).toISOString();
      return { status: { checkedAt: at }, again: "2s" };
    },
  });
  const w = await openWorld({ controllers: [controller] });
  await w.apply(probe());
  await w.advance("2m");
  expect(w.writes().length).toBeGreaterThanOrEqual(60);
});

it("does not back off if another client's changes alter the result", async () => {
  const controller = defineController({
    ...{ name: "probe", for: Probe, owns: [Secret] },
    sync: ({ object: { metadata }, owned }) => ({
      apply: [Secret({ metadata: { name: metadata.name } })],
      status: { seen: Number(owned(Secret, metadata.name)?.metadata.labels?.["count"] ?? 0) },
    }),
  });
  const w = await openWorld({ controllers: [controller] });
  await w.apply(probe());
  await w.settle();
  for (let i = 1; i <= 2 * HOT; i++) {
    await w.edit(Secret, "shop", "a", { metadata: { labels: { count: String(i) } } });
    await w.advance("100ms");
    expect(w.get(Probe, "shop", "a")?.status?.seen).toBe(i);
  }
});
