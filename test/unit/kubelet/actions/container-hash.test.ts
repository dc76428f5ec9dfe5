// Would catch: a hash that differs between versions of the agent (every container of the node would restart), or that misses an image.
import { expect, it } from "vitest";
import { containerHash } from "../../../../shared/kubelet/pod.ts";
import { containerSpec } from "../fixtures.ts";

/** Taken from another program's FNV-1a of `{"name":…,"image":…}`. */
const table = [
  { container: { name: "foo1", image: "foo:v1" }, want: "cdee102b" },
  { container: { name: "c1964", image: "i" }, want: "52eb5" },
];

it.each(table)("$container.name → $want, without leading zeros", ({ container, want }) => {
  expect(containerHash(container)).toBe(want);
});

it("counts name and image, nothing else", () => {
  const hash = containerHash(containerSpec("foo1"));
  expect(containerHash(containerSpec("foo1", { command: ["sh"], env: [{ name: "A", value: "1" }] }))).toBe(hash);
  expect(containerHash(containerSpec("foo2"))).not.toBe(hash);
  expect(containerHash(containerSpec("foo1", { image: "foo:v2" }))).not.toBe(hash);
  expect(containerHash({ name: "foo1" })).toBe(containerHash({ name: "foo1", image: "" }));
});
