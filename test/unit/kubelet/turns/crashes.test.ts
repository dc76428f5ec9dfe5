// Would catch: an agent that cannot go on from wherever it was killed: a second sandbox, a container twice, a restart too many, a pod or mirror that stays, a sandbox that
// nothing bounds.
import { expect, test } from "vitest";
import type { ContainerStatusEntry } from "../../../../shared/kubelet/pod.ts";
import { CONFIG_ANNOTATIONS } from "../../../../shared/kubelet/labels.ts";
import type { Call } from "../../../harness/node/life.ts";
import { NodeRig } from "../../../harness/node/node.ts";
import { shareOf } from "../../../support/share.ts";

const SECONDS = 1_000;
/** What a service manager waits before it starts the agent again. */
const RESTART_MS = 2 * SECONDS;

/** How many places to be killed at a check tries, of a story's two or three hundred. */
const POINTS = 15;

/** Where the first agent of a run ends: at its n-th call, before or after that was executed. */
interface Crash {
  readonly at: number;
  readonly fate: "dieBefore" | "dieAfter";
  readonly call: string;
}

interface Story {
  readonly name: string;
  /** `unstarted`: containers that had been made and not started when the first agent ended. */
  play(rig: NodeRig, unstarted: ReadonlySet<string>): Promise<void>;
}

const IMAGES = {
  "init:1": { exitAfterMs: SECONDS },
  "hooked:1": { stopAfterMs: 2 * SECONDS, exec: () => ({ afterMs: SECONDS }) },
  "ends:1": { exitAfterMs: 4 * SECONDS, exitCode: 3 },
};
const hook = { exec: { command: ["hook"] } };

const STORIES: readonly Story[] = [
  {
    name: "a pod with everything, made and deleted",
    async play(rig, unstarted) {
      const uid = await rig.create("p", {
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
      await rig.until("ready", () => rig.isReady("p"));
      expect((await rig.running(uid)).toSorted()).toEqual(["hooked", "pulled", "side"]);
      // Such an instance counts, as with upstream (§18.8); nothing else was started twice.
      for (const [name, count] of restarts(rig, "p")) expect([name, count]).toEqual([name, unstarted.has(name) ? 1 : 0]);
      await rig.delete("p");
      await rig.until("gone", () => rig.pod("p") === undefined);
      expect(await rig.running(uid)).toEqual([]);
    },
  },
  {
    name: "a pod that ends by itself, and one that comes back",
    async play(rig) {
      await rig.create("once", { restartPolicy: "Never", containers: [{ name: "app", image: "ends:1" }] });
      await rig.create("again", { restartPolicy: "OnFailure", containers: [{ name: "app", image: "ends:1" }] });
      await rig.until("it ended", () => rig.phase("once") === "Failed");
      expect(rig.pod("once")?.status?.containerStatuses?.[0]?.state?.terminated?.exitCode).toBe(3);
      await rig.until("it came back twice", () => (rig.pod("again")?.status?.containerStatuses?.[0]?.restartCount ?? 0) >= 2);
      await rig.delete("again");
      await rig.delete("once");
      await rig.until("both are gone", () => rig.pods().length === 0);
    },
  },
  {
    name: "a static pod, changed and taken away",
    async play(rig) {
      rig.setManifest("web.yaml", { name: "web", spec: { containers: [{ name: "app", image: "hooked:1" }] } });
      await rig.until("its mirror is ready", () => rig.isReady("web-n1"));
      rig.setManifest("web.yaml", { name: "web", spec: { containers: [{ name: "app", image: "app:1" }] } });
      const uid = rig.manifestUid("web.yaml");
      const isNew = (): boolean => rig.pod("web-n1")?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror] === uid;
      await rig.until("the new one's mirror is ready", () => isNew() && rig.isReady("web-n1"));
      expect(await rig.running(uid)).toEqual(["app"]);
      rig.setManifest("web.yaml", undefined);
      await rig.until("gone", async () => rig.pods().length === 0 && (await rig.running(uid)).length === 0);
    },
  },
];

function restarts(rig: NodeRig, pod: string): readonly (readonly [string, number])[] {
  const { initContainerStatuses = [], containerStatuses = [] } = rig.pod(pod)?.status ?? {};
  return [...initContainerStatuses, ...containerStatuses].map(({ name, restartCount }: ContainerStatusEntry) => [name, restartCount]);
}

/** The whole run, and a minute and a half more, after which nothing is left. @returns where it can be broken off */
async function run(story: Story, crash?: Crash): Promise<readonly Crash[]> {
  const rig = new NodeRig({ manifests: true, images: IMAGES, remoteImages: { "pulled:1": { pullMs: 1.5 * SECONDS } } });
  const points = new Map<string, Crash>();
  const unstarted = new Set<string>();
  const unbounded: string[] = [];
  let calls = 0;
  rig.fateOf = (call) => {
    if (call.verb === "runPodSandbox" && !isBounded(rig, call)) unbounded.push(`at call ${calls}`);
    if (call.port !== "cri" && call.port !== "kube" && !(call.port === "cgroups" && !isRead(call))) return "live";
    const at = ++calls;
    for (const fate of isRead(call) ? (["dieBefore"] as const) : (["dieBefore", "dieAfter"] as const)) {
      const key = pointKey(call, fate, `${rig.calls.length} ${rig.changes()}`);
      if (!points.has(key)) points.set(key, { at, fate, call: call.verb });
    }
    if (at !== crash?.at) return "live";
    void rig.clock.after(RESTART_MS).then(async () => {
      for (const { state, metadata } of await rig.containers()) if (state === "CONTAINER_CREATED") unstarted.add(metadata.name);
      rig.start();
    });
    return crash.fate;
  };
  rig.start();
  await story.play(rig, unstarted);
  const left = async (): Promise<number> => {
    const { cri, files, cgroups } = rig;
    const groups = cgroups.children("/kubepods/besteffort"); // all pods here ask for nothing
    const lists = await Promise.all([
      cri.listContainers(),
      cri.listPodSandbox(),
      files.podsWithDirectories(),
      files.logDirectories(),
      groups,
    ]);
    return lists.flat().length;
  };
  await rig.until("nothing is left", async () => (await left()) === 0 && rig.lives === (crash === undefined ? 1 : 2), 200 * SECONDS);
  expect(unbounded).toEqual([]);
  return [...points.values()];
}

/** No sandbox is made outside of a control group with limits (CM1 of container-manager.ts). */
function isBounded(rig: NodeRig, { args: [config] }: Call): boolean {
  const { linux } = config as { readonly linux: { readonly cgroupParent: string } }; // its parameter
  return rig.cgroups.files(linux.cgroupParent)?.["cpu.shares"] !== undefined;
}

/**
 * Only the world outlives a crash. So one before a call that would not have changed it is as good as one before any other such call
 * in the same state; and of the node's own objects and Events, which no pod depends on, one of each kind is enough.
 */
function pointKey(call: Call, fate: Crash["fate"], state: string): string {
  if (isRead(call)) return `read ${state}`;
  const of = place(call);
  return `${fate} ${call.verb} ${of}${["events", "leases", "nodes"].includes(of) ? "" : ` ${state}`}`;
}

function isRead({ verb }: Call): boolean {
  return /^(get|list|watch|status|version|container|image|podSandbox|exists|children)/u.test(verb);
}

/** Which resource of the API server, or which object. */
function place({ args: [first] }: Call): string {
  return typeof first === "string" ? first : String((first as { readonly resource?: string } | undefined)?.resource ?? ""); // a request to the API server
}

test.each(STORIES)(
  "[node-agent 117] $name: killed at any call to the runtime, the API server or its control groups, the next agent brings it to the same end",
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
