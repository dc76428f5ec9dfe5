import { expect, it } from "vitest";

import { shareLists } from "../../../../shared/node-agent/host/shared-lists.ts";
import type { Cri } from "../../../../shared/node-agent/ports/cri.ts";
import type { PodSandbox } from "../../../../shared/node-agent/ports/cri-types.ts";

const PODS = ["a", "b", "c", "d", "e"];

/** A runtime whose lists return the current objects when the test calls `end`; `asked` has the filters of the calls. */
function heldRuntime(): { readonly cri: Cri; readonly asked: unknown[]; readonly pods: string[]; end(): void; fail(error: Error): void } {
  const asked: unknown[] = [];
  const pods = [...PODS];
  let held: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];
  const release = (by: (one: (typeof held)[number]) => void): void => {
    const before = held;
    held = [];
    for (const one of before) by(one);
  };
  const listPodSandbox: Cri["listPodSandbox"] = async (filter) => {
    asked.push(filter?.labelSelector?.["uid"] ?? filter?.state ?? "all");
    const there = pods.map((uid) => ({ id: `sandbox of ${uid}`, labels: { uid } }));
    await new Promise<void>((resolve, reject) => void held.push({ resolve, reject }));
    const uid = filter?.labelSelector?.["uid"];
    // the only fields that are read
    return there.filter(({ labels }) => uid === undefined || labels.uid === uid) as unknown as PodSandbox[];
  };
  return {
    cri: shareLists({ listPodSandbox, listContainers: async () => [] } as unknown as Cri), // the only verbs that are called
    asked,
    pods,
    end: () => release(({ resolve }) => resolve()),
    fail: (error) => release(({ reject }) => reject(error)),
  };
}

const of = (uid: string): { readonly labelSelector: { readonly uid: string } } => ({ labelSelector: { uid } });
const turn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));

it("LI2 lists a single pod for a single caller, and passes other filters than labels through", async () => {
  const { cri, asked, end } = heldRuntime();
  const one = cri.listPodSandbox(of("b"));
  const ready = cri.listPodSandbox({ ...of("b"), state: "SANDBOX_READY" });
  await turn();
  end();
  expect([await one, asked]).toMatchObject([[{ id: "sandbox of b" }], ["b", "b"]]);
  expect(await ready).toMatchObject([{ id: "sandbox of b" }]);
});

it("LI1 callers that arrive during a list share the next list, which includes later changes", async () => {
  const { cri, asked, pods, end } = heldRuntime();
  const first = cri.listPodSandbox(of("a"));
  const others = ["b", "c", "f", "e"].map((uid) => cri.listPodSandbox(of(uid)));
  await turn();
  expect(asked).toEqual(["a"]);
  pods.push("f");
  end();
  expect(await first).toHaveLength(1);
  await turn();
  expect(asked).toEqual(["a", "all"]);
  end();
  expect((await Promise.all(others)).map((list) => list.map(({ id }) => id))).toEqual([
    ["sandbox of b"],
    ["sandbox of c"],
    ["sandbox of f"],
    ["sandbox of e"],
  ]);
});

it("reads a few pods one by one, unless a caller needs all", async () => {
  const { cri, asked, end } = heldRuntime();
  const round = async (filters: readonly (ReturnType<typeof of> | undefined)[]): Promise<readonly unknown[]> => {
    asked.length = 0;
    const first = cri.listPodSandbox(of("a"));
    const others = filters.map((filter) => cri.listPodSandbox(filter));
    for (let step = 0; step < 2; step++) {
      await turn();
      end();
    }
    const counts = (await Promise.all([first, ...others])).map(({ length }) => length);
    return [counts, [...asked]];
  };
  expect(await round([of("b"), of("c")])).toEqual([
    [1, 1, 1],
    ["a", "b", "c"],
  ]);
  expect(await round([of("b"), undefined])).toEqual([
    [1, 1, 5],
    ["a", "all"],
  ]);
});

it("fails every caller of a failed shared list, and lists again for the next caller", async () => {
  const { cri, fail, end } = heldRuntime();
  const first = cri.listPodSandbox(of("a"));
  const others = PODS.map((uid) => cri.listPodSandbox(of(uid)));
  await turn();
  end();
  await first;
  await turn();
  fail(new Error("the runtime is gone"));
  for (const one of others) await expect(one).rejects.toThrow("the runtime is gone");
  const again = cri.listPodSandbox(of("a"));
  await turn();
  end();
  expect(await again).toHaveLength(1);
});
