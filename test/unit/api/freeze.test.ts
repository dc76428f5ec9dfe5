/** Deep freezing of snapshots. */
import { describe, expect, it } from "vitest";
import { deepFreeze } from "../../../shared/base/freeze.ts";

describe("deepFreeze", () => {
  it("[informer T85] changing a frozen snapshot throws, at every depth", () => {
    const pod = deepFreeze({ name: "web", labels: { app: "web" }, conditions: [{ type: "Ready", status: "True" }] });
    expect(() => (pod.name = "x")).toThrow(TypeError);
    expect(() => (pod.labels.app = "x")).toThrow(TypeError);
    expect(() => pod.conditions.push({ type: "x", status: "True" })).toThrow(TypeError);
    expect(() => (((pod.conditions[0] ?? pod.labels) as { status?: string }).status = "x")).toThrow(TypeError);
  });

  it("returns its argument", () => {
    const value = { a: [1] };
    expect(deepFreeze(value)).toBe(value);
    expect(deepFreeze(undefined)).toBeUndefined();
    expect(deepFreeze("text")).toBe("text");
  });
});
