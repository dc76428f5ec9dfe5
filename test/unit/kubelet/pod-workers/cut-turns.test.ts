// Would catch: a restart that is lost because its stop took longer than an iteration, so that an unfinished pod counts as complete; a hook
// that is not awaited.
import { expect, test } from "vitest";
import { createMemoryNodeStore } from "../../../../shared/node-agent/memory/node-store.ts";
import { CriError } from "../../../../shared/node-agent/ports/cri-error.ts";
import type { ContainerStatusEntry, PodSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { NodeHarness, startedNode } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
/** A container that exits with 0 three seconds after its stop; an iteration waits only for two. */
const SLOW = { stopAfterMs: 3 * SECONDS };
/** A container whose liveness probe succeeds for the first ten seconds of each instance. */
const SICK = { ...SLOW, exec: (_: unknown, runningForMs: number) => ({ exitCode: runningForMs < 10 * SECONDS ? 0 : 1 }) };
const IMAGES = { "slow:1": SLOW, "slow:2": SLOW, "sick:1": SICK, "init:1": { exitAfterMs: SECONDS } };
const CHECK = { exec: { command: ["check"] }, periodSeconds: 1, failureThreshold: 1 };
const APP = { name: "app", image: "slow:1" };

type Spec = Partial<PodSpec> & Pick<PodSpec, "containers">;

function status(node: NodeHarness, pod = "p", container = "app"): ContainerStatusEntry | undefined {
  const { containerStatuses = [], initContainerStatuses = [] } = node.pod(pod)?.status ?? {};
  return [...initContainerStatuses, ...containerStatuses].find(({ name }) => name === container);
}

async function loseSandbox(node: NodeHarness): Promise<void> {
  const [sandbox] = await node.cri.listPodSandbox({ state: "SANDBOX_READY" });
  node.cri.loseSandbox(sandbox?.id ?? "");
}

const useImage = async (node: NodeHarness, image: string): Promise<void> =>
  await node.patch("p", { spec: { containers: [{ name: "app", image }] } });
const changeImage = async (node: NodeHarness): Promise<void> => await useImage(node, "slow:2");
const nothing = async (): Promise<void> => undefined;

const restarted: readonly { readonly name: string; readonly spec: Spec; readonly act: (node: NodeHarness) => Promise<void> }[] = [
  {
    name: "fails its liveness probe under OnFailure",
    spec: { restartPolicy: "OnFailure", containers: [{ ...APP, image: "sick:1", livenessProbe: CHECK }] },
    act: nothing,
  },
  { name: "gets a new image under OnFailure", spec: { restartPolicy: "OnFailure", containers: [APP] }, act: changeImage },
  { name: "gets a new image under Never", spec: { restartPolicy: "Never", containers: [APP] }, act: changeImage },
  { name: "loses its sandbox under OnFailure", spec: { restartPolicy: "OnFailure", containers: [APP] }, act: loseSandbox },
  {
    name: "loses its sandbox under OnFailure in a pod with init containers",
    spec: { restartPolicy: "OnFailure", initContainers: [{ name: "init", image: "init:1" }], containers: [APP] },
    act: loseSandbox,
  },
  {
    name: "loses its sandbox under OnFailure while another container is completed",
    spec: { restartPolicy: "OnFailure", containers: [APP, { name: "done", image: "init:1" }] },
    act: loseSandbox,
  },
];

test.each(restarted)("[node-agent 127] restarts a container that $name, and takes 3 s to exit with 0", async ({ spec, act }) => {
  const node = await startedNode({ images: IMAGES });
  const uid = await node.create("p", spec);
  await node.until("it runs", () => status(node)?.state?.running !== undefined);
  await node.advance(3 * SECONDS);
  await act(node);
  await node.until("the next one runs", () => {
    // Neither the API server nor a Job accepts that a container leaves Terminated.
    expect(status(node)?.state?.terminated).toBeUndefined();
    expect(["Running", "Pending"]).toContain(node.phase("p"));
    return status(node)?.restartCount === 1 && status(node)?.state?.running !== undefined;
  });
  expect(status(node)?.lastState?.terminated?.exitCode).toBe(0);
  expect((await node.running(uid)).filter((name) => name === "app")).toEqual(["app"]);
  expect(node.phase("p")).toBe("Running");
  await node.advance(3 * SECONDS);
  expect(await node.agent.ports.store.read("restarts", uid)).toBeUndefined();
});

test.each(["OnFailure", "Never"] as const)(
  "[node-agent 127] under %s, restarts a container with a changed image that exits immediately while the new image takes 5 s to pull",
  async (restartPolicy) => {
    const node = await startedNode({ remoteImages: { "far:1": { pullMs: 5 * SECONDS } } });
    await node.create("p", { restartPolicy, containers: [{ ...APP, image: "app:1" }] });
    await node.until("it runs", () => status(node)?.state?.running !== undefined);
    await useImage(node, "far:1");
    await node.until("the next one runs", () => {
      expect(status(node)?.state?.terminated).toBeUndefined();
      expect(node.phase("p")).toBe("Running");
      return status(node)?.restartCount === 1 && status(node)?.state?.running !== undefined;
    });
  },
);

test("[node-agent 127] does not restart a container that fails its liveness probe under Never", async () => {
  const node = await startedNode({ images: IMAGES });
  const uid = await node.create("p", { restartPolicy: "Never", containers: [{ ...APP, image: "sick:1", livenessProbe: CHECK }] });
  await node.until("it ended", () => node.phase("p") === "Succeeded");
  await node.advance(30 * SECONDS);
  expect(status(node)).toMatchObject({ restartCount: 0, state: { terminated: { exitCode: 0 } } });
  expect(await node.containers(uid)).toHaveLength(1);
});

test.each([
  { how: "is deleted", act: async (node: NodeHarness) => await node.delete("p"), phase: undefined },
  {
    how: "exceeds its active deadline",
    act: async (node: NodeHarness) => await node.patch("p", { spec: { activeDeadlineSeconds: 1 } }),
    phase: "Failed",
  },
])("[node-agent 127] terminates a pod that $how during the stop, and starts no container", async ({ act, phase }) => {
  const node = await startedNode({ images: IMAGES });
  const uid = await node.create("p", { restartPolicy: "OnFailure", containers: [APP] });
  await node.until("it runs", () => status(node)?.state?.running !== undefined);
  await changeImage(node);
  await node.until("it is being stopped", () => node.calls.some(({ verb }) => verb === "stopContainer"));
  await act(node);
  await node.until("it ended", () => node.phase("p") === phase);
  await node.advance(5 * SECONDS);
  expect(node.phase("p")).toBe(phase);
  if (phase !== undefined) expect(status(node)?.state?.terminated).toMatchObject({ exitCode: 0 });
  expect(node.calls.filter(({ verb }) => verb === "createContainer")).toHaveLength(1);
  expect(await node.agent.ports.store.read("restarts", uid)).toBeUndefined();
});

test("[node-agent 127] restarts the stopped container even if its image is changed back during the stop", async () => {
  const node = await startedNode({ images: IMAGES });
  const uid = await node.create("p", { restartPolicy: "OnFailure", containers: [APP] });
  await node.until("it runs", () => status(node)?.state?.running !== undefined);
  await changeImage(node);
  await node.until("it is being stopped", () => node.calls.some(({ verb }) => verb === "stopContainer"));
  await useImage(node, "slow:1");
  await node.until("the next one runs", async () => status(node)?.restartCount === 1 && (await node.running(uid)).length === 1);
  expect(node.phase("p")).toBe("Running");
});

test("[node-agent 127] measures the back-off from the previous exit, however long the stop takes", async () => {
  const node = await startedNode({ images: IMAGES });
  const uid = await node.create("p", { containers: [{ ...APP, image: "sick:1", livenessProbe: CHECK }] });
  await node.until("the fifth runs", async () => (await node.containers(uid)).at(-1)?.metadata.attempt === 4, 200 * SECONDS);
  const starts = node.calls.filter(({ verb }) => verb === "startContainer").map(({ atMs }) => atMs);
  const gaps = starts.slice(1).map((atMs, index) => (atMs - (starts[index] ?? 0)) / SECONDS);
  // Each instance takes ten seconds until it fails and three to stop, more than the first back-offs of 10 s. The next back-off is 20 s,
  // starting with this end.
  for (const gap of gaps.slice(0, 3)) expect.soft(gap).toBeLessThan(10 + 3 + 3);
  expect(gaps[3]).toBeGreaterThanOrEqual(10 + 3 + 20);
});

const KEPT = [
  { when: "before the stop", fatal: { verb: "stopContainer", nth: 1 } },
  { when: "between stop and start", fatal: { verb: "createContainer", nth: 2 } },
];

/** Kills the agent at that call and starts the next one two seconds later. */
async function crashed(kept: boolean, { verb, nth }: { readonly verb: string; readonly nth: number }): Promise<NodeHarness> {
  const node = new NodeHarness({ images: IMAGES });
  const store = createMemoryNodeStore();
  let calls = 0;
  node.fateOf = (call) => {
    if (call.verb !== verb || ++calls !== nth) return "live";
    void node.clock.after(2 * SECONDS).then(() => node.start(kept ? store : createMemoryNodeStore()));
    return "dieBefore";
  };
  node.start(store);
  await node.advance(2 * SECONDS);
  await node.create("p", { restartPolicy: "OnFailure", containers: [{ ...APP, image: "sick:1", livenessProbe: CHECK }] });
  await node.until("its agent died, and there is another", () => node.lives === 2);
  return node;
}

test.each(KEPT)("[node-agent 128] restarts the container when the agent is killed $when and its NodeStore is kept", async ({ fatal }) => {
  const node = await crashed(true, fatal);
  await node.until("the next one runs", () => {
    expect(status(node)?.state?.terminated).toBeUndefined();
    return status(node)?.restartCount === 1 && status(node)?.state?.running !== undefined;
  });
});

test("[node-agent 128] a container whose stop is no longer necessary and that exits by itself is completed", async () => {
  const node = new NodeHarness({ images: { ...IMAGES, "ends:1": { ...SLOW, exitAfterMs: 40 * SECONDS } } });
  const store = createMemoryNodeStore();
  node.fateOf = ({ verb }) => (verb === "stopContainer" ? "dieBefore" : "live");
  node.start(store);
  await node.advance(2 * SECONDS);
  const uid = await node.create("p", { restartPolicy: "OnFailure", containers: [{ ...APP, image: "ends:1" }] });
  await node.until("it runs", () => status(node)?.state?.running !== undefined);
  await changeImage(node);
  await node.until("its agent died", () => !node.isAlive);
  expect(Object.keys((await store.read("restarts", uid)) ?? {})).toEqual(["app"]);
  await useImage(node, "ends:1");
  node.start(store);
  await node.until("it ended", () => node.phase("p") === "Succeeded");
  expect(status(node)?.restartCount).toBe(0);
});

test("[node-agent 128] a stored container restart is removed with its pod, even if the pod ends while no agent runs", async () => {
  const node = new NodeHarness({ images: IMAGES });
  const store = createMemoryNodeStore();
  node.fateOf = ({ verb }) => (verb === "stopContainer" ? "dieBefore" : "live");
  node.start(store);
  await node.advance(2 * SECONDS);
  await node.create("p", { restartPolicy: "OnFailure", containers: [APP] });
  await node.until("it runs", () => status(node)?.state?.running !== undefined);
  await changeImage(node);
  await node.until("its agent died", () => !node.isAlive);
  await node.delete("p", 0);
  node.fateOf = () => "live";
  node.start(store);
  expect((await store.rows("restarts")).size).toBe(1);
  await node.until("nothing is kept of it", async () => (await store.rows("restarts")).size === 0);
});

test("[node-agent 128] if agent and NodeStore are lost between stop and start, the exit is treated as after a kubelet restart", async () => {
  const node = await crashed(false, { verb: "createContainer", nth: 2 });
  await node.until("it ended", () => node.phase("p") === "Succeeded");
});

test("[node-agent 128] if agent and NodeStore are lost before the stop, the container keeps running until its probe fails again", async () => {
  const node = await crashed(false, { verb: "stopContainer", nth: 1 });
  await node.until("the next one runs", () => status(node)?.restartCount === 1 && status(node)?.state?.running !== undefined);
});

test.each([
  { code: 1, phase: "Failed" },
  { code: 0, phase: "Pending" },
])(
  "[node-agent 129] creates no second sandbox if the first one dies while an init container runs under Never: exit code $code, pod $phase",
  async ({ code, phase }) => {
    const node = await startedNode({ images: { ...IMAGES, "init:2": { ...SLOW, stopExitCode: code } } });
    const uid = await node.create("p", { restartPolicy: "Never", initContainers: [{ name: "init", image: "init:2" }], containers: [APP] });
    await node.until("it initialises", () => status(node, "p", "init")?.state?.running !== undefined);
    await loseSandbox(node);
    await node.advance(120 * SECONDS);
    expect(node.phase("p")).toBe(phase);
    expect(status(node, "p", "init")?.state?.terminated?.exitCode).toBe(code);
    expect(node.calls.filter(({ verb }) => verb === "runPodSandbox" || verb === "createContainer")).toHaveLength(2);
    expect(await node.running(uid)).toEqual([]);
  },
);

/** A container whose hook takes five seconds; the next container waits for that. */
const HOOKED: Spec = {
  containers: [
    { name: "app", image: "hooked:1", lifecycle: { postStart: { exec: { command: ["post"] } } } },
    { name: "next", image: "slow:1" },
  ],
};

/** `hooks` has the time of each run of a hook. */
function hooked(): { readonly node: NodeHarness; readonly hooks: readonly number[] } {
  const hooks: number[] = [];
  const exec = () => {
    hooks.push(node.clock.now());
    return { afterMs: 5 * SECONDS };
  };
  const node: NodeHarness = new NodeHarness({ images: { ...IMAGES, "hooked:1": { exec } } });
  return { node, hooks };
}

test("[node-agent 130] keeps the container running without the hook, as after a kubelet restart, when the agent is killed between start and postStart hook", async () => {
  const { node, hooks } = hooked();
  node.fateOf = ({ verb }) => (verb === "startContainer" && node.lives === 1 ? "dieAfter" : "live");
  node.start();
  await node.advance(2 * SECONDS);
  const uid = await node.create("p", HOOKED);
  await node.until("its agent died", () => !node.isAlive);
  node.start();
  await node.until("ready", () => node.isReady("p"));
  expect(hooks).toEqual([]);
  expect((await node.containers(uid)).map(({ metadata }) => [metadata.name, metadata.attempt])).toEqual([
    ["app", 0],
    ["next", 0],
  ]);
});

test("[node-agent 130] runs the hook once, while later containers wait, when a sync iteration is abandoned between start and postStart hook", async () => {
  const { node, hooks } = hooked();
  let held = false;
  node.fateOf = ({ verb }) => {
    if (verb !== "containerStatus" || held || !node.calls.some((call) => call.verb === "startContainer")) return "live";
    held = true;
    return { after: node.clock.after(150 * SECONDS) };
  };
  node.start();
  await node.advance(2 * SECONDS);
  const uid = await node.create("p", HOOKED);
  await node.until("ready", () => node.isReady("p"), 300 * SECONDS);
  expect(held).toBe(true);
  expect(hooks).toHaveLength(1);
  const next = (await node.containers(uid)).find(({ metadata }) => metadata.name === "next");
  expect(next?.startedAtMs).toBeGreaterThanOrEqual((hooks[0] ?? 0) + 5 * SECONDS);
});

test("[node-agent 130] removes the reason of an earlier failure when a start that waited for its postStart hook succeeds", async () => {
  const { node, hooks } = hooked();
  let failures = 0;
  node.fateOf = ({ verb }) => (verb === "createContainer" && ++failures === 1 ? { fail: new CriError("Unknown", "no space") } : "live");
  node.start();
  await node.advance(2 * SECONDS);
  const uid = await node.create("p", HOOKED);
  await node.until("its hook runs", () => hooks.length === 1);
  expect(failures).toBeGreaterThan(1);
  await node.advance(5 * SECONDS); // the hook's duration
  expect(await node.agent.ports.store.read("reasons", uid)).toBeUndefined();
});
