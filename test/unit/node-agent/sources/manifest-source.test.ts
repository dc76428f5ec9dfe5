// Would catch: a manifest that is found late or never, an invalid manifest that affects others, a pod that ends because its file was read
// while it was being written, and missing defaults of a static pod.
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { createSystemClock } from "../../../../shared/base/system/clock.ts";
import type { NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { manifestPod, readManifest } from "../../../../shared/node-agent/sources/manifest.ts";
import { runManifestSource } from "../../../../shared/node-agent/sources/manifest-source.ts";
import type { Clock } from "../../../../shared/base/clock.ts";
import { recordingLog } from "../../recording-log.ts";

const YAML = (name: string, image = "registry.test/web:v1"): string => `
apiVersion: v1
kind: Pod
metadata:
  name: ${name}
  creationTimestamp: null
spec:
  containers:
  - name: main
    image: ${image}
    ports: [{ containerPort: 80 }]
    readinessProbe: { httpGet: { port: 80 } }
    resources: { requests: { cpu: 0.5 } }
`;

let directory = "";
let stop = new AbortController();
let running: Promise<void> = Promise.resolve();

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "manifests-"));
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  await running;
  await rm(directory, { recursive: true, force: true });
});

interface Source {
  readonly lists: (readonly NodePod[])[];
  readonly log: ReturnType<typeof recordingLog>;
  /** Returns the names of the pods in the first list since the last call for which `fits` returns true. */
  next(fits?: (names: readonly string[]) => boolean): Promise<readonly string[]>;
}

function start(path: string, clock: Clock): Source {
  const lists: (readonly NodePod[])[] = [];
  const log = recordingLog();
  let looked = 0;
  let wake: (() => void) | undefined;
  const emit = (pods: readonly NodePod[]): void => {
    lists.push(pods);
    wake?.();
  };
  running = runManifestSource({ path, nodeName: "n1", emit, log, clock }, stop.signal);
  return {
    lists,
    log,
    async next(fits = () => true) {
      for (;;) {
        const list = lists[looked];
        if (list === undefined) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
          continue;
        }
        looked++;
        const names = list.map(({ metadata }) => metadata.name);
        if (fits(names)) return names;
      }
    },
  };
}

const write = (name: string, text: string): Promise<void> => writeFile(join(directory, name), text);

describe("a directory", () => {
  it("[node-agent 64] returns valid manifests sorted by name, and reports errors in others", async () => {
    await write("b.yaml", YAML("second"));
    await write(
      "a.json",
      JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { name: "first" }, spec: { containers: [{ name: "c", image: "i" }] } }),
    );
    await write("c.yaml", "apiVersion: v1\nkind: [");
    await write("d.yaml", "kind: Deployment");
    await write("e.yaml", "");
    await write(".hidden.yaml", YAML("hidden"));
    await mkdir(join(directory, "sub"));
    await write("sub/f.yaml", YAML("deeper"));
    const source = start(`${directory}//`, createVirtualClock(0));
    expect(await source.next()).toEqual(["first-n1", "second-n1"]);
    expect(source.log.lines.map(({ fields }) => fields["path"])).toEqual(
      ["c.yaml", "d.yaml", "e.yaml", "sub"].map((name) => join(directory, name)),
    );
    expect(source.log.lines[1]?.fields["error"]).toContain(`manifest ${join(directory, "d.yaml")}: expected apiVersion v1 and kind Pod`);
  });

  // https://github.com/kubernetes/kubernetes/issues/136962
  it("[node-agent 64] also returns the pod of a backup file, with the same name and another UID", async () => {
    await Promise.all([write("web.yaml", YAML("web")), write("web.yaml.backup", YAML("web"))]);
    const source = start(directory, createVirtualClock(0));
    expect(await source.next()).toEqual(["web-n1", "web-n1"]);
    expect(new Set(source.lists[0]?.map(({ metadata }) => metadata.uid)).size).toBe(2);
  });

  it.each(["", "missing"])("[node-agent 64] a directory without pods is an empty list (%s)", async (name) => {
    const source = start(join(directory, name), createVirtualClock(0));
    expect(await source.next()).toEqual([]);
  });

  it.each([
    { priority: "", want: [] },
    { priority: "priority: 2000001000\n  priorityClassName: system-node-critical", want: [] },
    { priority: "priorityClassName: high", want: [/no effect without priority/u] },
    { priority: "priority: 5", want: [/without priorityClassName/u] },
    { priority: "priority: 5\n  priorityClassName: high", want: [/set priority 2000001000 and priorityClassName system-node-critical/u] },
  ])("logs an inconsistent priority once, and runs the pod: $priority", async ({ priority, want }) => {
    await writeFile(join(directory, "a.yaml"), `${YAML("a")}  ${priority}\n`);
    const clock = createVirtualClock(0);
    const source = start(directory, clock);
    expect(await source.next()).toEqual(["a-n1"]);
    await until(() => clock.nextDueMs() !== undefined);
    await clock.advance(20_000);
    await source.next();
    const shown = source.log.lines.map(({ fields }) => fields);
    expect(shown).toEqual(want.map((warning) => ({ pod: "default/a-n1", warning: expect.stringMatching(warning) as string })));
  });

  it("a directory is read completely every 20 s, and an error is logged once", async () => {
    const clock = createVirtualClock(0);
    await write("a.yaml", YAML("a"));
    await write("bad.yaml", "x");
    const source = start(directory, clock);
    expect(await source.next()).toEqual(["a-n1"]);
    for (let round = 0; round < 3; round++) {
      await until(() => clock.nextDueMs() !== undefined);
      await clock.advance(19_999);
      expect(source.lists).toHaveLength(round + 1);
      await clock.advance(1);
      expect(await source.next()).toEqual(["a-n1"]);
    }
    expect(source.log.lines).toHaveLength(1);
  });

  it("detects new, changed and removed files soon", async () => {
    const source = start(directory, createSystemClock());
    await source.next();
    await write("a.yaml", YAML("a"));
    await source.next((names) => names.join() === "a-n1");
    const before = source.lists.at(-1)?.[0]?.metadata.uid;
    await write("a.yaml", YAML("a", "registry.test/web:v2"));
    await source.next(() => source.lists.at(-1)?.[0]?.spec.containers[0]?.image === "registry.test/web:v2");
    expect(source.lists.at(-1)?.[0]?.metadata.uid).not.toBe(before);
    await rename(join(directory, "a.yaml"), join(directory, ".a.yaml"));
    await source.next((names) => names.length === 0);
  });

  it("keeps the pod of a newly invalid file until the next complete read", async () => {
    const clock = createVirtualClock(0);
    await write("a.yaml", YAML("a"));
    await write("b.yaml", YAML("b"));
    const source = start(directory, clock);
    await source.next();
    await until(() => clock.nextDueMs() === 20_000);
    await write("a.yaml", "apiVersion: v1\nkind: P");
    // The change ends the 20 s interval, and the source waits for the file to settle instead.
    await until(() => clock.nextDueMs() === 100);
    await clock.advance(100);
    expect(await source.next()).toEqual(["a-n1", "b-n1"]);
    expect(source.log.lines.at(-1)?.fields["path"]).toBe(join(directory, "a.yaml"));
    await until(() => clock.nextDueMs() === 20_000);
    await clock.advance(20_000);
    expect(await source.next()).toEqual(["b-n1"]);
  });

  it("a directory is found if it is created later, even together with its parent directories, or recreated", async () => {
    const path = join(directory, "etc", "manifests");
    const source = start(path, createSystemClock());
    expect(await source.next()).toEqual([]);
    await mkdir(path, { recursive: true });
    await writeFile(join(path, "a.yaml"), YAML("a"));
    await source.next((names) => names.join() === "a-n1");
    await rm(path, { recursive: true });
    await source.next((names) => names.length === 0);
    await mkdir(path);
    await writeFile(join(path, "b.yaml"), YAML("b"));
    await source.next((names) => names.join() === "b-n1");
  });
});

describe("a file", () => {
  it("an unchanged manifest is not parsed again", async () => {
    await write("a.yaml", YAML("a"));
    await write("bad.yaml", "kind: P");
    const clock = createVirtualClock(0);
    const source = start(directory, clock);
    await source.next();
    await until(() => clock.nextDueMs() === 20_000);
    await clock.advance(20_000);
    await source.next();
    await write("a.yaml", YAML("a", "registry.test/web:v2"));
    await until(() => clock.nextDueMs() !== 40_000);
    await clock.advance(100);
    await source.next();
    const [first, second, third] = source.lists.map(([pod]) => pod);
    expect(second).toBe(first);
    expect(third).not.toBe(first);
  });

  it("a file is one pod; nothing changes while the file is invalid, and the list is empty when it is removed", async () => {
    await write("web.yaml", YAML("web"));
    await write("other.yaml", YAML("other"));
    const clock = createVirtualClock(0);
    const source = start(join(directory, "web.yaml"), clock);
    expect(await source.next()).toEqual(["web-n1"]);
    await until(() => clock.nextDueMs() === 20_000);
    await write("web.yaml", "kind: P");
    await until(() => clock.nextDueMs() === 100);
    await clock.advance(100);
    await until(() => clock.nextDueMs() === 20_000);
    expect([source.lists.length, source.log.lines.length]).toEqual([1, 1]);
    await rm(join(directory, "web.yaml"));
    await until(() => clock.nextDueMs() === 200);
    await clock.advance(100);
    expect(await source.next()).toEqual([]);
  });

  it("a file larger than 1 MiB is not read", async () => {
    await write("web.yaml", YAML("web"));
    await write("huge.yaml", `${YAML("huge")}# ${"x".repeat(1024 * 1024)}`);
    const source = start(directory, createVirtualClock(0));
    expect(await source.next()).toEqual(["web-n1"]);
    expect(source.log.lines[0]?.fields["error"]).toContain("larger than 1 MiB");
  });

  it.each([
    { place: "a FIFO", make: async (path: string) => void execFileSync("mkfifo", [path]) },
    {
      place: "a link to a FIFO",
      make: async (path: string) => (execFileSync("mkfifo", [join(directory, ".fifo")]), await symlink(".fifo", path)),
    },
    { place: "a link to a kernel file whose read blocks", make: async (path: string) => await symlink("/proc/kmsg", path) },
    { place: "a link to a device that never ends", make: async (path: string) => await symlink("/dev/zero", path) },
  ])("a file that is $place does not stop the source", async ({ make }) => {
    await write("web.yaml", YAML("web"));
    await make(join(directory, "a.yaml"));
    const source = start(directory, createVirtualClock(0));
    expect(await source.next()).toEqual(["web-n1"]);
    expect(source.log.lines.map(({ fields }) => fields["path"])).toEqual([join(directory, "a.yaml")]);
    await expect(readManifest(join(directory, "a.yaml"))).rejects.toThrow();
  });
});

describe("manifestPod", () => {
  const defaulted = manifestPod(YAML("web"), "/m/web.yaml", "n1");

  it("parses YAML like the kubelet: a mode is octal, `yes` a boolean, a time a string, and the last of two equal keys is used", () => {
    const text = `
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {since: 2026-01-02T03:04:05Z}, name: web2}
spec:
  hostNetwork: yes
  containers: [{name: main, image: shop}]
  volumes: [{name: v, downwardAPI: {defaultMode: 0644, items: []}}]
`;
    expect(manifestPod(text, "web.yaml", "n1")).toMatchObject({
      metadata: { name: "web2-n1", annotations: { since: "2026-01-02T03:04:05Z" } },
      spec: { hostNetwork: true, volumes: [{ downwardAPI: { defaultMode: 0o644 } }] },
    });
  });

  it("sets the API server's defaults", () => {
    expect(defaulted.spec).toMatchObject({
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      dnsPolicy: "ClusterFirst",
      enableServiceLinks: true,
      containers: [
        {
          imagePullPolicy: "IfNotPresent",
          ports: [{ containerPort: 80, protocol: "TCP" }],
          readinessProbe: { periodSeconds: 10, timeoutSeconds: 1, failureThreshold: 3, httpGet: { path: "/", scheme: "HTTP" } },
          resources: { requests: { cpu: "500m" } },
        },
      ],
    });
    expect(defaulted.metadata).not.toHaveProperty("creationTimestamp");
  });

  it("[node-agent 65] treats an explicit default value as no change, and any other value as a change", () => {
    const uidOf = (text: string): string => manifestPod(text, "/m/web.yaml", "n1").metadata.uid;
    expect(uidOf(`${YAML("web")}  restartPolicy: Always\n`)).toBe(defaulted.metadata.uid);
    expect(uidOf(`${YAML("web")}  restartPolicy: Never\n`)).not.toBe(defaulted.metadata.uid);
  });
});

/** Lets the source's own I/O continue. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}
