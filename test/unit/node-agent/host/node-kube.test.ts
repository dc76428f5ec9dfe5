// Would catch: a pod's status or volumes that wait for the next iteration because the API server's authorizer has not seen the pod yet, and
// an error that is hidden or retried although a retry cannot succeed.
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { createNodeKube } from "../../../../shared/node-agent/host/node-kube.ts";
import { KubeApiError } from "../../../../shared/kube/client/errors.ts";
import type { RetryBudget } from "../../../../shared/base/retry-budget.ts";

type NodeKube = Parameters<typeof createNodeKube>[0]["calls"];

const forbidden = new KubeApiError({ code: 403, reason: "Forbidden" });

/** Each call fails with the next of `errors`; then all calls succeed. */
function start(...errors: readonly Error[]) {
  const clock = createVirtualClock(0);
  const calls: number[] = [];
  const answer = async <T>(value: T): Promise<T> => {
    const error = errors[calls.push(clock.now()) - 1];
    if (error !== undefined) throw error;
    return value;
  };
  const object = { kind: "Pod", metadata: { name: "web" } };
  // Contains only the methods that the cases below call.
  const kube = { get: () => answer(object), create: () => answer(object) } as unknown as NodeKube;
  return { kube: createNodeKube({ heartbeats: kube, calls: kube }, clock), clock, calls };
}

describe("a node agent's API client", () => {
  it("retries reads with a 403 until the node authorizer knows the pod", async () => {
    const { kube, clock, calls } = start(forbidden, forbidden);
    const got = kube.get("pods", "default", "web");
    await clock.advance(1_000);
    expect(await got).toMatchObject({ metadata: { name: "web" } });
    expect(calls.map((at) => at - (calls[0] ?? 0))).toEqual([0, 100, 400]);
  });

  it("gives up after retrying a 403 for 1.3 s", async () => {
    const { kube, clock, calls } = start(forbidden, forbidden, forbidden, forbidden);
    const got = kube.get("pods", "default", "web").catch((error: unknown) => error);
    await clock.advance(2_000);
    expect(await got).toBe(forbidden);
    expect(calls).toHaveLength(4);
  });

  it("retries neither other failures nor calls for the Node itself", async () => {
    const conflict = new KubeApiError({ code: 409, reason: "Conflict" });
    const once = start(conflict);
    await expect(once.kube.get("pods", "default", "web")).rejects.toBe(conflict);
    const own = start(forbidden);
    await expect(own.kube.create({ resource: "nodes", namespace: "", body: {} })).rejects.toBe(forbidden);
    expect([once.calls.length, own.calls.length]).toEqual([1, 1]);
  });

  it("ends a call for the Node or its Lease within 10 s, and any other call within 22 s, including retries", async () => {
    const clock = createVirtualClock(1_000);
    const told: string[] = [];
    const note =
      (verb: string) =>
      async (...given: readonly unknown[]): Promise<never> => {
        const { retryBudget } = given.at(-1) as { readonly retryBudget?: RetryBudget };
        told.push(`${verb} ${retryBudget?.waitMsMax()} ${retryBudget?.requestTimeoutMs ?? "default"}`);
        throw forbidden;
      };
    const noted = { get: note("get"), list: note("list"), create: note("create"), replace: note("replace") } as unknown as NodeKube;
    const kube = createNodeKube({ heartbeats: noted, calls: noted }, clock);
    const target = { resource: "leases", namespace: "kube-node-lease", name: "n" } as const;
    await expect(kube.replace({ ...target, body: {} })).rejects.toBe(forbidden);
    await expect(kube.create({ resource: "nodes", namespace: "", body: {} })).rejects.toBe(forbidden);
    await expect(kube.list("services", "")).rejects.toBe(forbidden);
    expect(told).toEqual(["replace 5000 5000", "create 5000 5000", "list 10000 default"]);
    told.length = 0;
    const got = kube.get("secrets", "default", "s").catch((error: unknown) => error);
    await clock.advance(2_000);
    expect(await got).toBe(forbidden);
    expect(told).toEqual(["get 10000 default", "get 9900 default", "get 9600 default", "get 8700 default"]);
  });

  it("[node-agent 488] calls for the Node and its Lease do not wait for calls for pods", async () => {
    const answer = async (): Promise<object> => ({});
    const verbs = { get: answer, list: answer, create: answer, patch: answer, replace: answer };
    const never = async (): Promise<never> => await new Promise(() => undefined);
    const hung = { get: never, list: never, create: never, patch: never, replace: never };
    const kube = createNodeKube({ heartbeats: verbs as unknown as NodeKube, calls: hung as unknown as NodeKube }, createVirtualClock(0));
    for (const resource of ["leases", "nodes"] as const) {
      const target = { resource, namespace: "", name: "n" };
      await expect(kube.get(resource, "", "n")).resolves.toEqual({});
      await expect(kube.list(resource, "")).resolves.toEqual({});
      await expect(kube.create({ resource, namespace: "", body: {} })).resolves.toEqual({});
      await expect(kube.patch({ ...target, type: "application/merge-patch+json", body: {} })).resolves.toEqual({});
      await expect(kube.replace({ ...target, body: {} })).resolves.toEqual({});
    }
  });
});
