// Would catch: a hash that differs from the kubelet's or between versions of the agent (every container of the node would restart), or that
// omits the image.
import { expect, it } from "vitest";
import { containerHash } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { containerSpec } from "../fixtures.ts";

/** The results of upstream's own HashContainer. */
const table = [
  { container: { name: "foo1", image: "foo:v1" }, want: "a7ccf167" },
  { container: { name: "foo1" }, want: "80f35630" },
  { container: { name: "main", image: `registry.example:5000/team/app@sha256:${"0123456789abcdef".repeat(4)}` }, want: "340c1f95" },
  { container: { name: "a", image: "<x&y>é\u2028" }, want: "5a99eddb" },
  { container: { name: "c2959", image: "i" }, want: "89f3d" },
];

it.each(table)("the hash of $container.name is $want, as in the kubelet, without leading zeros [node-agent 463]", ({ container, want }) => {
  expect(containerHash(container)).toBe(want);
});

it("the hash covers only name and image", () => {
  const hash = containerHash(containerSpec("foo1"));
  expect(containerHash(containerSpec("foo1", { command: ["sh"], env: [{ name: "A", value: "1" }] }))).toBe(hash);
  expect(containerHash(containerSpec("foo2"))).not.toBe(hash);
  expect(containerHash(containerSpec("foo1", { image: "foo:v2" }))).not.toBe(hash);
  expect(containerHash({ name: "foo1" })).toBe(containerHash({ name: "foo1", image: "" }));
});
