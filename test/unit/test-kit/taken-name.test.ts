/**
 * A desired name that another owner's object has. Catches: a condition that flaps with each attempt, and a condition that remains after the
 * conflict.
 */
import { expect, it } from "vitest";
import { Website, website } from "../../../examples/website/website.ts";
import { Service } from "../../../shared/sdk/kinds.ts";
import { world } from "../../../shared/test-kit/index.ts";
import type { World } from "../../../shared/test-kit/index.ts";

const NS = "shop";
const appliedOf = (w: World) => w.get(Website, NS, "a")?.status?.conditions?.find(({ type }) => type === "Applied");

it("reports a name that is taken in one condition until an attempt succeeds", async () => {
  const w = await world({ controllers: [website], builtIn: false });
  await w.apply(Service({ metadata: { name: "a", namespace: NS }, spec: { selector: { of: "another" }, ports: [{ port: 1 }] } }));
  await w.apply(Website({ metadata: { name: "a", namespace: NS }, spec: { image: "nginx" } }));
  await w.settle();
  const first = appliedOf(w);
  expect(first).toMatchObject({ status: "False", reason: "NameTaken", message: "Service shop/a: NameTaken" });

  const before = w.writes().length;
  await w.advance("2m");
  expect(appliedOf(w)).toEqual(first);
  expect(w.writes().slice(before)).toEqual([]);

  await w.delete(Service, NS, "a");
  await w.advance("6m");
  expect(w.get(Service, NS, "a")?.spec?.selector).toEqual({ app: "a" });
  expect(appliedOf(w)).toBeUndefined();
});
