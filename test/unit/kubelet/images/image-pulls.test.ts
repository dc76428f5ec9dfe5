// Would catch: pulls that run concurrently when they must not, or not at all; a pod that waits for another pod's image; a back-off that is
// lost or applied to another image; and messages that differ from upstream's.
import { describe, expect, test } from "vitest";
import { CriError } from "../../../../shared/node-agent/ports/cri-error.ts";
import type { RemoteImage } from "../../../../shared/node-agent/memory/cri/cri-script.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const MINUTES = 60 * SECONDS;
const APP = { name: "app", image: "app:1" };

const remote = (pullMs: number, ...names: readonly string[]): Record<string, RemoteImage> =>
  Object.fromEntries(names.map((name) => [name, { pullMs }]));

/** Returns the pulled images, with the seconds since the first pull. */
function pulls(node: NodeHarness): readonly string[] {
  const sent = node.calls.filter(({ verb }) => verb === "pullImage");
  return sent.map(
    ({ args, atMs }) => `${(args[0] as { readonly image: string }).image} +${Math.round((atMs - (sent[0]?.atMs ?? 0)) / SECONDS)}`,
  );
}

/** Returns the Events of a pod in order, with repetitions. */
function said(node: NodeHarness, pod: string): readonly string[] {
  return node.requests.flatMap(({ path, body }) => {
    const event = body as { readonly type: string; readonly reason: string; readonly message: string; readonly involvedObject: object }; // of an Event
    return path.endsWith("/events") && (event.involvedObject as { readonly name: string }).name === pod
      ? [`${event.type} ${event.reason}: ${event.message}`]
      : [];
  });
}

function waiting(node: NodeHarness, pod: string, index = 0): readonly [string | undefined, string | undefined] {
  const state = node.pod(pod)?.status?.containerStatuses?.[index]?.state?.waiting;
  return [state?.reason, state?.message];
}

const one = (image: string, more: object = {}): { readonly containers: (typeof APP)[] } => ({
  containers: [{ ...APP, image, ...more }],
});

describe("the pull queue", () => {
  test("[node-agent 235] serialized: starts the second pod's pull when the first one's has ended, and does not delay a pod without a pull", async () => {
    const node = await startedNode({ remoteImages: remote(20 * SECONDS, "a:1", "b:1") });
    await node.create("a", one("a:1"));
    await node.advance(SECONDS);
    await node.create("b", one("b:1"));
    await node.create("here", { containers: [APP] });
    await node.until("who needs no pull is ready", () => node.isReady("here"), 5 * SECONDS);
    expect(waiting(node, "b")[0]).toBe("ContainerCreating");
    await node.until("both are ready", () => node.isReady("a") && node.isReady("b"));
    expect(pulls(node)).toEqual(["a:1 +0", "b:1 +20"]);
    expect(said(node, "b").slice(0, 2)).toEqual([
      'Normal Pulling: Pulling image "b:1"',
      expect.stringMatching(
        /^Normal Pulled: Successfully pulled image "b:1" in 20s \((?:38|39)[.\d]*s including waiting\)\. Image size: 1000000 bytes\.$/u,
      ),
    ]);
  });

  test("[node-agent 235] pulls the same image once for each of two pods, as upstream does", async () => {
    const node = await startedNode({ remoteImages: remote(5 * SECONDS, "a:1") });
    for (const name of ["p", "q"]) await node.create(name, one("a:1"));
    await node.until("both are ready", () => node.isReady("p") && node.isReady("q"));
    expect(pulls(node)).toEqual(["a:1 +0", "a:1 +5"]);
    expect(["p", "q"].map((name) => said(node, name).filter((text) => text.includes("already present")))).toEqual([[], []]);
  });

  test("[node-agent 236] two in parallel: starts the third pull when one has ended", async () => {
    const node = await startedNode({
      remoteImages: { ...remote(20 * SECONDS, "a:1"), ...remote(10 * SECONDS, "b:1", "c:1") },
      imagePulls: { serialize: false, maxParallel: 2, registryQps: 5, registryBurst: 10 },
    });
    for (const name of ["a", "b", "c"]) await node.create(name, one(`${name}:1`));
    await node.until("all are ready", () => ["a", "b", "c"].every((name) => node.isReady(name)));
    expect(pulls(node)).toEqual(["a:1 +0", "b:1 +0", "c:1 +10"]);
  });

  test("[node-agent 237] fails a pull above the registry rate limit, with the usual back-off", async () => {
    const node = await startedNode({
      remoteImages: remote(SECONDS, "a:1", "b:1"),
      imagePulls: { serialize: false, registryQps: 1, registryBurst: 1 },
    });
    await node.create("a", one("a:1"));
    await node.create("b", one("b:1"));
    await node.until("it is refused", () => waiting(node, "b")[0] === "ErrImagePull");
    expect(waiting(node, "b")).toEqual(["ErrImagePull", "pull QPS exceeded"]);
    expect(said(node, "b").slice(0, 3)).toEqual([
      'Normal Pulling: Pulling image "b:1"',
      'Warning Failed: Failed to pull image "b:1": pull QPS exceeded',
      "Warning Failed: Error: ErrImagePull",
    ]);
    expect(pulls(node)).toEqual(["a:1 +0"]);
    await node.until("both are ready", () => node.isReady("a") && node.isReady("b"), 30 * SECONDS);
  });

  test("[node-agent 238] removes a deleted pod from the queue immediately", async () => {
    const node = await startedNode({ remoteImages: remote(30 * SECONDS, "a:1", "b:1", "c:1") });
    for (const name of ["a", "b", "c"]) {
      await node.create(name, one(`${name}:1`));
      await node.advance(SECONDS);
    }
    await node.delete("b");
    await node.until("it is gone", () => node.pod("b") === undefined, 5 * SECONDS);
    await node.until("the others are ready", () => node.isReady("a") && node.isReady("c"));
    expect(pulls(node)).toEqual(["a:1 +0", "c:1 +30"]);
  });

  test("[node-agent 238] frees the slot of a pod that is deleted during its pull", async () => {
    const node = await startedNode({ remoteImages: remote(90 * SECONDS, "a:1", "b:1") });
    await node.create("a", one("a:1"));
    await node.advance(SECONDS);
    await node.create("b", one("b:1"));
    await node.advance(9 * SECONDS);
    await node.delete("a");
    await node.until("b is ready", () => node.isReady("b"));
    expect(pulls(node)).toEqual(["a:1 +0", "b:1 +10"]);
  });

  test("[node-agent 239] restores the queue when the next agent starts after a crash", async () => {
    const node = await startedNode({ remoteImages: remote(20 * SECONDS, "a:1", "b:1", "c:1") });
    for (const name of ["a", "b", "c"]) await node.create(name, one(`${name}:1`));
    await node.advance(5 * SECONDS);
    node.kill();
    // The runtime continues the pull; no caller gets its result.
    await node.advance(SECONDS);
    node.start();
    await node.until("all are ready", () => ["a", "b", "c"].every((name) => node.isReady(name)));
    const starts = node.calls.flatMap(({ verb, atMs }) => (verb === "pullImage" ? [atMs] : []));
    const [, ...again] = starts;
    expect(again).toHaveLength(3);
    for (const [index, atMs] of again.slice(1).entries()) expect(atMs - (again[index] ?? 0)).toBeGreaterThanOrEqual(20 * SECONDS);
  });
});

describe("back-off", () => {
  const BAD = { "bad:1": { pullError: "no such image" } };
  const CAUSE = 'failed to pull and unpack image "bad:1": no such image';
  const BACK_OFF = `Back-off pulling image "bad:1": ErrImagePull: ${CAUSE}`;

  test("[node-agent 240] the containers of one pod share the back-off and its cause, but different pods do not", async () => {
    const node = await startedNode({ remoteImages: BAD });
    const second = { name: "second", image: "bad:1" };
    await node.create("p", { containers: [{ ...APP, image: "bad:1" }, second] });
    await node.until("both wait", () => waiting(node, "p", 1)[0] !== undefined && waiting(node, "p")[0] === "ErrImagePull", 5 * SECONDS);
    expect([waiting(node, "p"), waiting(node, "p", 1)]).toEqual([
      ["ErrImagePull", CAUSE],
      ["ImagePullBackOff", BACK_OFF],
    ]);
    expect(pulls(node)).toEqual(["bad:1 +0"]);
    await node.create("q", one("bad:1"));
    await node.until("it is asked for", () => waiting(node, "q")[0] === "ErrImagePull", 5 * SECONDS);
    expect(pulls(node)).toHaveLength(2);
  });

  test("[node-agent 240] the back-off is reported within three seconds of each failure, and remains the waiting reason until the next attempt", async () => {
    const node = await startedNode({ remoteImages: BAD });
    await node.create("p", one("bad:1"));
    for (const tries of [1, 2, 3]) {
      await node.until("it is tried", () => pulls(node).length === tries, 50 * SECONDS);
      await node.advance(3 * SECONDS);
      expect(waiting(node, "p")).toEqual(["ImagePullBackOff", BACK_OFF]);
      await node.advance(5 * SECONDS);
      expect([waiting(node, "p")[0], pulls(node).length]).toEqual(["ImagePullBackOff", tries]);
    }
  });

  test("[node-agent 240] the back-off doubles up to 5 min, even if nothing is reported in between", async () => {
    const node = await startedNode({ remoteImages: BAD });
    await node.create("p", one("bad:1"));
    await node.advance(25 * MINUTES);
    const starts = node.calls.flatMap(({ verb, atMs }) => (verb === "pullImage" ? [atMs] : []));
    const waits = starts.slice(1).map((atMs, index) => (atMs - (starts[index] ?? 0)) / SECONDS);
    const least = [10, 20, 40, 80, 160, 300, 300];
    expect(waits.length).toBeGreaterThanOrEqual(6);
    for (const [index, wait] of waits.entries()) {
      const [min, max] = [least[index] ?? 300, (least[index] ?? 300) + 90];
      expect(wait, `wait ${index}`).toBeGreaterThanOrEqual(min);
      expect(wait, `wait ${index}`).toBeLessThan(max);
    }
  });

  test("[node-agent 243] the back-off keeps an unused entry for 10 min", async () => {
    const node = await startedNode();
    const { store, clock } = node.agent.ports;
    const entry = { delayMs: 300_000, lastUpdateMs: clock.now(), cause: "ErrImagePull: no" };
    await store.update("backOffs", "u_bad:1", () => entry);
    await node.advance(10 * MINUTES);
    expect(await store.read("backOffs", "u_bad:1")).toEqual(entry);
    await node.advance(3 * SECONDS);
    expect(await store.read("backOffs", "u_bad:1")).toBeUndefined();
  });

  test.each([
    ["RegistryUnavailable", "the registry is unavailable"],
    ["SignatureValidationFailed", "the signature validation failed"],
  ])("[node-agent 242] reports %s if the runtime returns it, even during the back-off", async (reason, because) => {
    const node = await startedNode({ remoteImages: BAD });
    node.fateOf = ({ verb }) => (verb === "pullImage" ? { fail: new CriError("Unknown", `${reason}: no route`) } : "live");
    await node.create("p", one("bad:1"));
    await node.until("it waits", () => waiting(node, "p")[0] === reason, 5 * SECONDS);
    const message = `image pull failed for bad:1 because ${because}: no route`;
    expect(waiting(node, "p")[1]).toBe(message);
    expect(said(node, "p")).toEqual(
      expect.arrayContaining([`Warning Failed: Failed to pull image "bad:1": ${reason}: no route`, `Warning Failed: Error: ${reason}`]),
    );
    await node.until("it backs off", () => waiting(node, "p")[0] === "ImagePullBackOff");
    expect(waiting(node, "p")[1]).toBe(`Back-off pulling image "bad:1": ${reason}: ${message}`);
  });
});

describe("reported Events", () => {
  const table = [
    {
      name: "an image that is present",
      image: "app:1",
      want: ['Normal Pulled: Container image "app:1" already present on machine and can be accessed by the pod'],
      reason: undefined,
    },
    {
      name: "an image pulled within one sync iteration",
      image: "quick:1",
      want: [
        'Normal Pulling: Pulling image "quick:1"',
        'Normal Pulled: Successfully pulled image "quick:1" in 1.5s (1.5s including waiting). Image size: 77 bytes.',
      ],
      reason: undefined,
    },
    {
      name: "an image pulled over several sync iterations",
      image: "slow:1",
      want: [
        'Normal Pulling: Pulling image "slow:1"',
        'Normal Pulled: Successfully pulled image "slow:1" in 1m1s (1m1s including waiting). Image size: 77 bytes.',
      ],
      reason: undefined,
    },
    {
      name: "an absent image with pull policy Never",
      image: "quick:1",
      policy: "Never",
      want: [
        'Warning ErrImageNeverPull: Container image "quick:1" is not present with pull policy of Never',
        "Warning Failed: Error: ErrImageNeverPull",
      ],
      reason: "ErrImageNeverPull",
    },
    {
      name: "an invalid image name",
      image: "Foo",
      want: [
        'Warning InspectFailed: Failed to apply default image tag "Foo": couldn\'t parse image name "Foo": invalid reference format: repository name (library/Foo) must be lowercase',
        "Warning Failed: Error: InvalidImageName",
      ],
      reason: "InvalidImageName",
    },
    {
      name: "a runtime that cannot inspect the image",
      image: "unsaid:1",
      want: [
        'Warning InspectFailed: Failed to inspect image "": rpc error: code = Unknown desc = no',
        "Warning Failed: Error: ImageInspectError",
      ],
      reason: "ImageInspectError",
    },
  ];
  test.each(table)("[node-agent 241] pull Events: $name", async ({ image, policy = "IfNotPresent", want, reason }) => {
    const node = await startedNode({
      remoteImages: { "quick:1": { pullMs: 1500, sizeBytes: 77 }, "slow:1": { pullMs: 61 * SECONDS, sizeBytes: 77 } },
    });
    node.fateOf = ({ verb, args }) =>
      verb === "imageStatus" && (args[0] as { readonly image: string }).image === "unsaid:1"
        ? { fail: new CriError("Unknown", "no") }
        : "live";
    await node.create("p", one(image, { imagePullPolicy: policy }));
    await node.until("it is known", () => (reason === undefined ? node.isReady("p") : waiting(node, "p")[0] === reason));
    await node.advance(SECONDS);
    const images = said(node, "p").filter((text) => !/ (?:Created|Started): /u.test(text));
    expect(images.slice(0, want.length)).toEqual(want);
    if (reason === undefined) expect(images).toHaveLength(want.length);
  });
});

test("[node-agent 450] tries all of the pod's secrets, and then all of the node's credentials", async () => {
  const asked: string[] = [];
  const credentials = {
    lookup: async (image: string) => {
      asked.push(image);
      return [{ username: "node", password: "x" }];
    },
  };
  const node = await startedNode({ remoteImages: remote(100, "r.test/app:2"), credentials });
  const auths = { "r.test": { username: "pod", password: "x" } };
  const data = { ".dockerconfigjson": Buffer.from(JSON.stringify({ auths })).toString("base64") };
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "s" }, type: "kubernetes.io/dockerconfigjson", data };
  await node.server.request({ method: "POST", path: "/api/v1/namespaces/default/secrets", body: secret });
  let refused = 0;
  node.fateOf = ({ verb }) => (verb === "pullImage" && refused++ === 0 ? { fail: new CriError("Unknown", "401") } : "live");
  await node.create("p", { containers: [{ ...APP, image: "r.test/app:2" }], imagePullSecrets: [{ name: "s" }] });
  await node.until("ready", () => node.isReady("p"));
  const tried = node.calls
    .filter(({ verb }) => verb === "pullImage")
    .map(({ args }) => (args[1] as { readonly auth?: { readonly username?: string } }).auth?.username);
  expect(tried).toEqual(["pod", "node"]);
  expect(asked).toEqual(["r.test/app:2"]);
});

test.each([
  { name: "fails", fails: true, want: 1 },
  { name: "succeeds", fails: false, want: 0 },
])(
  "reports missing pull secrets in one Event, even if the pull takes longer than the sync iteration and then $name",
  async ({ fails, want }) => {
    const pullMs = 20 * SECONDS;
    const node = await startedNode({ remoteImages: { "a:1": fails ? { pullMs, pullError: "401" } : { pullMs } } });
    await node.create("p", { ...one("a:1"), imagePullSecrets: [{ name: "s" }, { name: "t" }] });
    await node.until("the pull ended", () => (fails ? waiting(node, "p")[0] === "ErrImagePull" : node.isReady("p")));
    const found = said(node, "p").filter((text) => text.includes("FailedToRetrieveImagePullSecret"));
    expect(found).toEqual(
      Array(want).fill(
        "Warning FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (s, t); attempting to pull the image may not succeed.",
      ),
    );
  },
);
