// Would catch: an agent that cannot continue from any crash: a second sandbox, a duplicate container, a surplus restart, a pod or mirror
// pod that remains, and a sandbox without limits.
import { expect, test } from "vitest";
import type { ContainerStatusEntry } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { CONFIG_ANNOTATIONS } from "../../../../shared/node-agent/kubelet/types/labels.ts";
import type { Call } from "../../../harness/node/life.ts";
import { NodeHarness } from "../../../harness/node/node.ts";
import { shareOf } from "../../../support/share.ts";

const SECONDS = 1_000;
/** The restart delay of a service manager. */
const RESTART_MS = 2 * SECONDS;

/** Number of crash points that `check` tests, of the two or three hundred in a story. */
const POINTS = 15;

/** The crash point of a run's first agent: its nth call, before or after its execution. */
interface Crash {
  readonly at: number;
  readonly fate: "dieBefore" | "dieAfter";
  readonly call: string;
}

interface Story {
  readonly name: string;
  /** `unstarted`: containers that had been created but not started when the first agent was killed. */
  play(node: NodeHarness, unstarted: ReadonlySet<string>): Promise<void>;
}

const IMAGES = {
  "init:1": { exitAfterMs: SECONDS },
  "hooked:1": { stopAfterMs: 2 * SECONDS, exec: () => ({ afterMs: SECONDS }) },
  "ends:1": { exitAfterMs: 4 * SECONDS, exitCode: 3 },
};
const hook = { exec: { command: ["hook"] } };

const STORIES: readonly Story[] = [
  {
    name: "a pod with all features that is created and deleted",
    async play(node, unstarted) {
      const uid = await node.create("p", {
        terminationGracePeriodSeconds: 6,
        initContainers: [
          { name: "init", image: "init:1" },
          { name: "side", image: "app:1", restartPolicy: "Always" },
        ],
        containers: [
          { name: "hooked", image: "hooked:1", lifecycle: { postStart: hook, preStop: hook } },
          { name: "pulled", image: "pulled:1", readinessProbe: { ...hook, periodSeconds: 1 } },
        ],
      });
      await node.until("ready", () => node.isReady("p"));
      expect((await node.running(uid)).toSorted()).toEqual(["hooked", "pulled", "side"]);
      // Such an instance counts as a restart, as with upstream (§18.8); nothing else was started twice.
      for (const [name, count] of restarts(node, "p")) expect([name, count]).toEqual([name, unstarted.has(name) ? 1 : 0]);
      await node.delete("p");
      await node.until("gone", () => node.pod("p") === undefined);
      expect(await node.running(uid)).toEqual([]);
    },
  },
  {
    name: "a pod that ends by itself, and a pod that restarts",
    async play(node) {
      await node.create("once", { restartPolicy: "Never", containers: [{ name: "app", image: "ends:1" }] });
      await node.create("again", { restartPolicy: "OnFailure", containers: [{ name: "app", image: "ends:1" }] });
      await node.until("it ended", () => node.phase("once") === "Failed");
      expect(node.pod("once")?.status?.containerStatuses?.[0]?.state?.terminated?.exitCode).toBe(3);
      await node.until("it came back twice", () => (node.pod("again")?.status?.containerStatuses?.[0]?.restartCount ?? 0) >= 2);
      await node.delete("again");
      await node.delete("once");
      await node.until("both are gone", () => node.pods().length === 0);
    },
  },
  {
    name: "a static pod that is changed and removed",
    async play(node) {
      node.setManifest("web.yaml", { name: "web", spec: { containers: [{ name: "app", image: "hooked:1" }] } });
      await node.until("its mirror is ready", () => node.isReady("web-n1"));
      node.setManifest("web.yaml", { name: "web", spec: { containers: [{ name: "app", image: "app:1" }] } });
      const uid = node.manifestUid("web.yaml");
      const isNew = (): boolean => node.pod("web-n1")?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror] === uid;
      await node.until("the new one's mirror is ready", () => isNew() && node.isReady("web-n1"));
      expect(await node.running(uid)).toEqual(["app"]);
      node.setManifest("web.yaml", undefined);
      await node.until("gone", async () => node.pods().length === 0 && (await node.running(uid)).length === 0);
    },
  },
];

function restarts(node: NodeHarness, pod: string): readonly (readonly [string, number])[] {
  const { initContainerStatuses = [], containerStatuses = [] } = node.pod(pod)?.status ?? {};
  return [...initContainerStatuses, ...containerStatuses].map(({ name, restartCount }: ContainerStatusEntry) => [name, restartCount]);
}

/**
 * Plays the whole story, and another minute and a half after which nothing must remain.
 * @returns the possible crash points
 */
async function run(story: Story, crash?: Crash): Promise<readonly Crash[]> {
  const node = new NodeHarness({ manifests: true, images: IMAGES, remoteImages: { "pulled:1": { pullMs: 1.5 * SECONDS } } });
  const points = new Map<string, Crash>();
  const unstarted = new Set<string>();
  const unbounded: string[] = [];
  let calls = 0;
  node.fateOf = (call) => {
    if (call.verb === "runPodSandbox" && !isBounded(node, call)) unbounded.push(`at call ${calls}`);
    if (call.port !== "cri" && call.port !== "kube" && !(call.port === "cgroups" && !isRead(call))) return "live";
    const at = ++calls;
    for (const fate of isRead(call) ? (["dieBefore"] as const) : (["dieBefore", "dieAfter"] as const)) {
      const key = pointKey(call, fate, `${node.calls.length} ${node.changes()}`);
      if (!points.has(key)) points.set(key, { at, fate, call: call.verb });
    }
    if (at !== crash?.at) return "live";
    void node.clock.after(RESTART_MS).then(async () => {
      for (const { state, metadata } of await node.containers()) if (state === "CONTAINER_CREATED") unstarted.add(metadata.name);
      node.start();
    });
    return crash.fate;
  };
  node.start();
  await story.play(node, unstarted);
  const left = async (): Promise<number> => {
    const { cri, files, cgroups } = node;
    const groups = cgroups.children("/kubepods/besteffort"); // all pods here have no requests
    const lists = await Promise.all([
      cri.listContainers(),
      cri.listPodSandbox(),
      files.podsWithDirectories(),
      files.logDirectories(),
      groups,
    ]);
    return lists.flat().length;
  };
  await node.until("nothing is left", async () => (await left()) === 0 && node.lives === (crash === undefined ? 1 : 2), 200 * SECONDS);
  expect(unbounded).toEqual([]);
  return [...points.values()];
}

/** Every sandbox is created in a control group with limits (CM1 of container-manager.ts). */
function isBounded(node: NodeHarness, { args: [config] }: Call): boolean {
  const { linux } = config as { readonly linux: { readonly cgroupParent: string } }; // a PodSandboxConfig
  return node.cgroups.files(linux.cgroupParent)?.["cpu.shares"] !== undefined;
}

/**
 * Returns equal keys for equivalent crash points, because only the external state outlives a crash. A crash before a call that would not
 * have changed that state is equivalent to one before any other such call in the same state. Of calls for the Node's own objects and
 * Events, on which no pod depends, one of each kind is enough.
 */
function pointKey(call: Call, fate: Crash["fate"], state: string): string {
  if (isRead(call)) return `read ${state}`;
  const of = place(call);
  return `${fate} ${call.verb} ${of}${["events", "leases", "nodes"].includes(of) ? "" : ` ${state}`}`;
}

function isRead({ verb }: Call): boolean {
  return /^(get|list|watch|status|version|container|image|podSandbox|exists|children)/u.test(verb);
}

/** Returns the API server's resource, or the object, of a call. */
function place({ args: [first] }: Call): string {
  return typeof first === "string" ? first : String((first as { readonly resource?: string } | undefined)?.resource ?? ""); // a request to the API server
}

test.each(STORIES)(
  "[node-agent 117] $name: if the agent is killed at any call to the runtime, the API server or cgroups, the next agent reaches the same final state",
  async (story) => {
    const points = await run(story);
    expect(points.length).toBeGreaterThan(50);
    for (const crash of shareOf(points, POINTS))
      await run(story, crash).catch((error: unknown) => {
        throw new Error(`killed at call ${crash.at}, ${crash.call}, ${crash.fate}`, { cause: error });
      });
  },
  120_000,
);
