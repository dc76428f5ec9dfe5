// Would catch: pulls that come side by side, or not at all; a pod that waits for another's image; a back-off that is forgotten, or another's; words that are not upstream's.
import { describe, expect, test } from "vitest";
import { CriError } from "../../../../shared/ports/cri-error.ts";
import type { RemoteImage } from "../../../../shared/adapters/memory/cri/cri-script.ts";
import { startedNode as node } from "../../../harness/node/node.ts";
import type { NodeRig } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const MINUTES = 60 * SECONDS;
const APP = { name: "app", image: "app:1" };

const remote = (pullMs: number, ...names: readonly string[]): Record<string, RemoteImage> =>
  Object.fromEntries(names.map((name) => [name, { pullMs }]));

/** What was pulled, and how many seconds after the first. */
function pulls(rig: NodeRig): readonly string[] {
  const sent = rig.calls.filter(({ verb }) => verb === "pullImage");
  return sent.map(
    ({ args, atMs }) => `${(args[0] as { readonly image: string }).image} +${Math.round((atMs - (sent[0]?.atMs ?? 0)) / SECONDS)}`,
  );
}

/** What was said of a pod, in order; told again, it is there again. */
function said(rig: NodeRig, pod: string): readonly string[] {
  return rig.requests.flatMap(({ path, body }) => {
    const event = body as { readonly type: string; readonly reason: string; readonly message: string; readonly involvedObject: object }; // of an Event
    return path.endsWith("/events") && (event.involvedObject as { readonly name: string }).name === pod
      ? [`${event.type} ${event.reason}: ${event.message}`]
      : [];
  });
}

function waiting(rig: NodeRig, pod: string, index = 0): readonly [string | undefined, string | undefined] {
  const state = rig.pod(pod)?.status?.containerStatuses?.[index]?.state?.waiting;
  return [state?.reason, state?.message];
}

const one = (image: string, more: object = {}): { readonly containers: (typeof APP)[] } => ({
  containers: [{ ...APP, image, ...more }],
});

describe("the line", () => {
  test("[node-agent 235] serialised, the second pod's pull begins when the first one's has ended, and nobody else waits", async () => {
    const rig = await node({ remoteImages: remote(20 * SECONDS, "a:1", "b:1") });
    await rig.create("a", one("a:1"));
    await rig.advance(SECONDS);
    await rig.create("b", one("b:1"));
    await rig.create("here", { containers: [APP] });
    await rig.until("who needs no pull is ready", () => rig.isReady("here"), 5 * SECONDS);
    expect(waiting(rig, "b")[0]).toBe("ContainerCreating");
    await rig.until("both are ready", () => rig.isReady("a") && rig.isReady("b"));
    expect(pulls(rig)).toEqual(["a:1 +0", "b:1 +20"]);
    expect(said(rig, "b").slice(0, 2)).toEqual([
      'Normal Pulling: Pulling image "b:1"',
      expect.stringMatching(
        /^Normal Pulled: Successfully pulled image "b:1" in 20s \((?:38|39)[.\d]*s including waiting\)\. Image size: 1000000 bytes\.$/u,
      ),
    ]);
  });

  test("[node-agent 235] the same image for two pods is pulled for each, as upstream does", async () => {
    const rig = await node({ remoteImages: remote(5 * SECONDS, "a:1") });
    for (const name of ["p", "q"]) await rig.create(name, one("a:1"));
    await rig.until("both are ready", () => rig.isReady("p") && rig.isReady("q"));
    expect(pulls(rig)).toEqual(["a:1 +0", "a:1 +5"]);
    expect(["p", "q"].map((name) => said(rig, name).filter((text) => text.includes("already present")))).toEqual([[], []]);
  });

  test("[node-agent 236] two at once, the third when one has ended", async () => {
    const rig = await node({
      remoteImages: { ...remote(20 * SECONDS, "a:1"), ...remote(10 * SECONDS, "b:1", "c:1") },
      imagePulls: { serialize: false, maxParallel: 2, registryQps: 5, registryBurst: 10 },
    });
    for (const name of ["a", "b", "c"]) await rig.create(name, one(`${name}:1`));
    await rig.until("all are ready", () => ["a", "b", "c"].every((name) => rig.isReady(name)));
    expect(pulls(rig)).toEqual(["a:1 +0", "b:1 +0", "c:1 +10"]);
  });

  test("[node-agent 237] more than the registry may be asked: the pull fails and backs off like any other", async () => {
    const rig = await node({
      remoteImages: remote(SECONDS, "a:1", "b:1"),
      imagePulls: { serialize: false, registryQps: 1, registryBurst: 1 },
    });
    await rig.create("a", one("a:1"));
    await rig.create("b", one("b:1"));
    await rig.until("it is refused", () => waiting(rig, "b")[0] === "ErrImagePull");
    expect(waiting(rig, "b")).toEqual(["ErrImagePull", "pull QPS exceeded"]);
    expect(said(rig, "b").slice(0, 3)).toEqual([
      'Normal Pulling: Pulling image "b:1"',
      'Warning Failed: Failed to pull image "b:1": pull QPS exceeded',
      "Warning Failed: Error: ErrImagePull",
    ]);
    expect(pulls(rig)).toEqual(["a:1 +0"]);
    await rig.until("both are ready", () => rig.isReady("a") && rig.isReady("b"), 30 * SECONDS);
  });

  test("[node-agent 238] a pod that is deleted in the line leaves it at once", async () => {
    const rig = await node({ remoteImages: remote(30 * SECONDS, "a:1", "b:1", "c:1") });
    for (const name of ["a", "b", "c"]) {
      await rig.create(name, one(`${name}:1`));
      await rig.advance(SECONDS);
    }
    await rig.delete("b");
    await rig.until("it is gone", () => rig.pod("b") === undefined, 5 * SECONDS);
    await rig.until("the others are ready", () => rig.isReady("a") && rig.isReady("c"));
    expect(pulls(rig)).toEqual(["a:1 +0", "c:1 +30"]);
  });

  test("[node-agent 238] a pod that is deleted while its image comes makes room for the next", async () => {
    const rig = await node({ remoteImages: remote(90 * SECONDS, "a:1", "b:1") });
    await rig.create("a", one("a:1"));
    await rig.advance(SECONDS);
    await rig.create("b", one("b:1"));
    await rig.advance(9 * SECONDS);
    await rig.delete("a");
    await rig.until("b is ready", () => rig.isReady("b"));
    expect(pulls(rig)).toEqual(["a:1 +0", "b:1 +10"]);
  });

  test("[node-agent 239] the agent dies with pulls in the line: the next one has the same line", async () => {
    const rig = await node({ remoteImages: remote(20 * SECONDS, "a:1", "b:1", "c:1") });
    for (const name of ["a", "b", "c"]) await rig.create(name, one(`${name}:1`));
    await rig.advance(5 * SECONDS);
    rig.kill();
    // The runtime goes on with what it was asked for; nobody hears of it.
    await rig.advance(SECONDS);
    rig.start();
    await rig.until("all are ready", () => ["a", "b", "c"].every((name) => rig.isReady(name)));
    const starts = rig.calls.flatMap(({ verb, atMs }) => (verb === "pullImage" ? [atMs] : []));
    const [, ...again] = starts;
    expect(again).toHaveLength(3);
    for (const [index, atMs] of again.slice(1).entries()) expect(atMs - (again[index] ?? 0)).toBeGreaterThanOrEqual(20 * SECONDS);
  });
});

describe("back-off", () => {
  const BAD = { "bad:1": { pullError: "no such image" } };
  const CAUSE = 'failed to pull and unpack image "bad:1": no such image';
  const BACK_OFF = `Back-off pulling image "bad:1": ErrImagePull: ${CAUSE}`;

  test("[node-agent 240] containers of one pod share it, and what went wrong; pods do not", async () => {
    const rig = await node({ remoteImages: BAD });
    const second = { name: "second", image: "bad:1" };
    await rig.create("p", { containers: [{ ...APP, image: "bad:1" }, second] });
    await rig.until("both wait", () => waiting(rig, "p", 1)[0] !== undefined && waiting(rig, "p")[0] === "ErrImagePull", 5 * SECONDS);
    expect([waiting(rig, "p"), waiting(rig, "p", 1)]).toEqual([
      ["ErrImagePull", CAUSE],
      ["ImagePullBackOff", BACK_OFF],
    ]);
    expect(pulls(rig)).toEqual(["bad:1 +0"]);
    await rig.create("q", one("bad:1"));
    await rig.until("it is asked for", () => waiting(rig, "q")[0] === "ErrImagePull", 5 * SECONDS);
    expect(pulls(rig)).toHaveLength(2);
  });

  test("[node-agent 240] it is said within three seconds of each failure, and is the reason until the next try", async () => {
    const rig = await node({ remoteImages: BAD });
    await rig.create("p", one("bad:1"));
    for (const tries of [1, 2, 3]) {
      await rig.until("it is tried", () => pulls(rig).length === tries, 50 * SECONDS);
      await rig.advance(3 * SECONDS);
      expect(waiting(rig, "p")).toEqual(["ImagePullBackOff", BACK_OFF]);
      await rig.advance(5 * SECONDS);
      expect([waiting(rig, "p")[0], pulls(rig).length]).toEqual(["ImagePullBackOff", tries]);
    }
  });

  test("[node-agent 240] it doubles up to 5 min, and goes on where it was when the agent says nothing in between", async () => {
    const rig = await node({ remoteImages: BAD });
    await rig.create("p", one("bad:1"));
    await rig.advance(25 * MINUTES);
    const starts = rig.calls.flatMap(({ verb, atMs }) => (verb === "pullImage" ? [atMs] : []));
    const waits = starts.slice(1).map((atMs, index) => (atMs - (starts[index] ?? 0)) / SECONDS);
    const least = [10, 20, 40, 80, 160, 300, 300];
    expect(waits.length).toBeGreaterThanOrEqual(6);
    for (const [index, wait] of waits.entries()) {
      const [min, max] = [least[index] ?? 300, (least[index] ?? 300) + 90];
      expect(wait, `wait ${index}`).toBeGreaterThanOrEqual(min);
      expect(wait, `wait ${index}`).toBeLessThan(max);
    }
  });

  test("[node-agent 243] an entry nobody asks about is kept for 10 min", async () => {
    const rig = await node();
    const { store, clock } = rig.agent.ports;
    const entry = { delayMs: 300_000, lastUpdateMs: clock.now(), cause: "ErrImagePull: no" };
    await store.update("backOffs", "u_bad:1", () => entry);
    await rig.advance(10 * MINUTES);
    expect(await store.read("backOffs", "u_bad:1")).toEqual(entry);
    await rig.advance(3 * SECONDS);
    expect(await store.read("backOffs", "u_bad:1")).toBeUndefined();
  });

  test.each([
    ["RegistryUnavailable", "the registry is unavailable"],
    ["SignatureValidationFailed", "the signature validation failed"],
  ])("[node-agent 242] %s is the reason where the runtime says so, and of the back-off, too", async (reason, because) => {
    const rig = await node({ remoteImages: BAD });
    rig.fateOf = ({ verb }) => (verb === "pullImage" ? { fail: new CriError("Unknown", `${reason}: no route`) } : "live");
    await rig.create("p", one("bad:1"));
    await rig.until("it waits", () => waiting(rig, "p")[0] === reason, 5 * SECONDS);
    const message = `image pull failed for bad:1 because ${because}: no route`;
    expect(waiting(rig, "p")[1]).toBe(message);
    expect(said(rig, "p")).toEqual(
      expect.arrayContaining([`Warning Failed: Failed to pull image "bad:1": ${reason}: no route`, `Warning Failed: Error: ${reason}`]),
    );
    await rig.until("it backs off", () => waiting(rig, "p")[0] === "ImagePullBackOff");
    expect(waiting(rig, "p")[1]).toBe(`Back-off pulling image "bad:1": ${reason}: ${message}`);
  });
});

describe("what is said", () => {
  const table = [
    {
      name: "present",
      image: "app:1",
      want: ['Normal Pulled: Container image "app:1" already present on machine and can be accessed by the pod'],
      reason: undefined,
    },
    {
      name: "pulled within a turn",
      image: "quick:1",
      want: [
        'Normal Pulling: Pulling image "quick:1"',
        'Normal Pulled: Successfully pulled image "quick:1" in 1.5s (1.5s including waiting). Image size: 77 bytes.',
      ],
      reason: undefined,
    },
    {
      name: "pulled over turns",
      image: "slow:1",
      want: [
        'Normal Pulling: Pulling image "slow:1"',
        'Normal Pulled: Successfully pulled image "slow:1" in 1m1s (1m1s including waiting). Image size: 77 bytes.',
      ],
      reason: undefined,
    },
    {
      name: "never pulled",
      image: "quick:1",
      policy: "Never",
      want: [
        'Warning ErrImageNeverPull: Container image "quick:1" is not present with pull policy of Never',
        "Warning Failed: Error: ErrImageNeverPull",
      ],
      reason: "ErrImageNeverPull",
    },
    {
      name: "no image name",
      image: "Foo",
      want: [
        'Warning InspectFailed: Failed to apply default image tag "Foo": couldn\'t parse image name "Foo": invalid reference format: repository name (library/Foo) must be lowercase',
        "Warning Failed: Error: InvalidImageName",
      ],
      reason: "InvalidImageName",
    },
    {
      name: "the runtime does not say what it has",
      image: "unsaid:1",
      want: [
        'Warning InspectFailed: Failed to inspect image "": rpc error: code = Unknown desc = no',
        "Warning Failed: Error: ImageInspectError",
      ],
      reason: "ImageInspectError",
    },
  ];
  test.each(table)("[node-agent 241] $name", async ({ image, policy = "IfNotPresent", want, reason }) => {
    const rig = await node({
      remoteImages: { "quick:1": { pullMs: 1500, sizeBytes: 77 }, "slow:1": { pullMs: 61 * SECONDS, sizeBytes: 77 } },
    });
    rig.fateOf = ({ verb, args }) =>
      verb === "imageStatus" && (args[0] as { readonly image: string }).image === "unsaid:1"
        ? { fail: new CriError("Unknown", "no") }
        : "live";
    await rig.create("p", one(image, { imagePullPolicy: policy }));
    await rig.until("it is known", () => (reason === undefined ? rig.isReady("p") : waiting(rig, "p")[0] === reason));
    await rig.advance(SECONDS);
    const images = said(rig, "p").filter((text) => !/ (?:Created|Started): /u.test(text));
    expect(images.slice(0, want.length)).toEqual(want);
    if (reason === undefined) expect(images).toHaveLength(want.length);
  });
});

test("[node-agent 450] secrets of the pod are tried before credentials of the node, and none is left out", async () => {
  const asked: string[] = [];
  const credentials = {
    lookup: async (image: string) => {
      asked.push(image);
      return [{ username: "node", password: "x" }];
    },
  };
  const rig = await node({ remoteImages: remote(100, "r.test/app:2"), credentials });
  const auths = { "r.test": { username: "pod", password: "x" } };
  const data = { ".dockerconfigjson": Buffer.from(JSON.stringify({ auths })).toString("base64") };
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "s" }, type: "kubernetes.io/dockerconfigjson", data };
  await rig.server.request({ method: "POST", path: "/api/v1/namespaces/default/secrets", body: secret });
  let refused = 0;
  rig.fateOf = ({ verb }) => (verb === "pullImage" && refused++ === 0 ? { fail: new CriError("Unknown", "401") } : "live");
  await rig.create("p", { containers: [{ ...APP, image: "r.test/app:2" }], imagePullSecrets: [{ name: "s" }] });
  await rig.until("ready", () => rig.isReady("p"));
  const tried = rig.calls
    .filter(({ verb }) => verb === "pullImage")
    .map(({ args }) => (args[1] as { readonly auth?: { readonly username?: string } }).auth?.username);
  expect(tried).toEqual(["pod", "node"]);
  expect(asked).toEqual(["r.test/app:2"]);
});
