/** Cgroups that systemd manages, on a machine with systemd as PID 1; test/e2e/node-cgroup-v2.test.ts starts such a machine. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readdir, readFile, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterEach, expect, it } from "vitest";

import { createMemoryNodeStore } from "../../shared/node-agent/memory/node-store.ts";
import { createCgroups } from "../../shared/node-agent/system/cgroups.ts";
import { createSystemdCgroups } from "../../shared/node-agent/systemd/cgroups.ts";
import { createSystemd } from "../../shared/node-agent/systemd/systemd.ts";
import type { Systemd } from "../../shared/node-agent/systemd/systemd.ts";
import { kubepodsCgroup, podCgroup } from "../../shared/node-agent/kubelet/container-manager/cgroup-name.ts";
import type { NodeOptions } from "../../shared/node-agent/kubelet/types/node-options.ts";
import type { ContainerSpec, NodePod } from "../../shared/node-agent/kubelet/types/pod.ts";
import { ContainerManager } from "../../shared/node-agent/kubelet/container-manager/container-manager.ts";
import type { Cgroups } from "../../shared/node-agent/ports/cgroups.ts";
import { eventually } from "../support/eventually.ts";
import { nodePod } from "../unit/kubelet/fixtures.ts";
import { MACHINE, OPTIONS } from "../harness/node/fixtures.ts";
import { recordingLog } from "../unit/recording-log.ts";
import { cgroupsConformance } from "./cgroups.ts";
import { MOUNT, openKernelCgroups, version } from "./kernel-cgroups.ts";

const run = promisify(execFile);
const PRIVATE = "/run/systemd/private";
const BUS = "/run/dbus/system_bus_socket";
const FILES = ["cpu.weight", "cpu.max", "memory.max", "pids.max"];

const isHere = process.getuid?.() === 0 && version === 2 && existsSync(PRIVATE);
if (isHere) suite();
else it.skip("Cgroups with systemd: systemd is not running, not accessible to this user, or uses cgroup v1");

function suite(): void {
  cgroupsConformance("systemd", () => openKernelCgroups({ open: opener(createSystemd([{ file: PRIVATE }])), pathOf: slicePath }));

  let node: Node | undefined;
  afterEach(async () => {
    await node?.end();
    node = undefined;
  });

  it("[node-agent 282] limits pods and QoS classes as cgroupfs does, and removes a slice completely", async () => {
    const files = await startNode("cgroupfs");
    const theirs = await files.bounds();
    await files.end();
    node = await startNode("systemd");
    expect(await node.bounds()).toEqual(theirs);
    expect(theirs).toMatchObject({
      kubepods: { "cpu.weight": "157", "memory.max": "8000000000", "pids.max": "4000" },
      Burstable: { "cpu.weight": "21", "memory.max": "max" },
      BestEffort: { "cpu.weight": "1" },
      guaranteed: { "cpu.weight": "8", "cpu.max": "20000 100000", "memory.max": "67108864", "pids.max": "333" },
    });
    // A daemon-reload keeps the properties of a unit.
    await run("systemctl", ["daemon-reload"]);
    expect(await node.bounds()).toEqual(theirs);
    expect(await node.show("guaranteed", ["CPUWeight", "MemoryMax", "TasksMax", "CPUQuotaPerSecUSec", "Transient"])).toEqual([
      ...["CPUWeight=8", "MemoryMax=67108864", "TasksMax=333", "CPUQuotaPerSecUSec=200ms", "Transient=yes"].toSorted(),
    ]);

    const unit = node.unitOf("burstable");
    const scope = spawn("systemd-run", ["--scope", `--slice=${unit}`, "--unit=in-a-pod", "/bin/sleep", "1000"], { stdio: "ignore" });
    const gone = once(scope, "exit");
    await eventually("something runs in the pod", async () => (await node?.processes("burstable")) === 1);
    await node.destroy("burstable");
    await gone;
    expect(await node.show("burstable", ["ActiveState"])).toEqual(["ActiveState=inactive"]);
    await eventually("nothing is left of it", async () => (await leftOf(unit.replace(".slice", ""))).length === 0);
  });

  it("[node-agent 282] rounds CPU time up to whole percents as upstream does, even in the kernel's file", async () => {
    node = await startNode("systemd");
    const pod = podOf("odd", { cpu: "123m", memory: "64Mi" }, { cpu: "123m", memory: "64Mi" });
    await node.create(pod);
    expect((await node.bounds([pod]))["odd"]).toMatchObject({ "cpu.max": "13000 100000" });
    await run("systemctl", ["daemon-reload"]);
    expect((await node.bounds([pod]))["odd"]).toMatchObject({ "cpu.max": "13000 100000" });
  });

  it("[node-agent 282] continues after a restart of systemd, and fails with systemd's message", async () => {
    node = await startNode("systemd");
    await run("systemctl", ["daemon-reexec"]);
    await node.create(podOf("later", {}, {}));
    expect((await node.bounds([podOf("later", {}, {})]))["later"]).toMatchObject({ "cpu.weight": "1" });
    const files = [{ controller: "cpu", name: "cpu.weight", value: "20000" }];
    await expect(node.cgroups.write(node.pathOf("guaranteed"), files)).rejects.toThrow(
      /systemd failed to set cpu\.weight of .*: .*CPUWeight/u,
    );
  });

  it("[node-agent 282] connects over the D-Bus socket if one exists", async () => {
    if (!existsSync(BUS)) await run("systemctl", ["start", "dbus.service"]);
    await eventually("systemd is on the bus", () => run("busctl", ["status", "org.freedesktop.systemd1"]));
    const systemd = createSystemd([{ file: BUS, match: "type='signal',member='JobRemoved'" }]);
    const { cgroups, at, read, close } = await openKernelCgroups({
      open: opener(systemd),
      pathOf: slicePath,
    });
    await cgroups.create(at("pod1"));
    await cgroups.write(at("pod1"), [{ controller: "pids", name: "pids.max", value: "19" }]);
    expect(await read(at("pod1"), "pids", "pids.max")).toBe("19");
    const [, unit = ""] = /([^/]+)$/u.exec(at("pod1")) ?? [];
    expect((await run("systemctl", ["show", unit, "--property=TasksMax"])).stdout.trim()).toBe("TasksMax=19");
    await close();
    expect(await cgroups.exists(at())).toBe(false);
  });
}

function opener(systemd: Systemd): (roots: readonly string[]) => Promise<Cgroups> {
  return async (roots) => createSystemdCgroups(createCgroups({ roots }), roots, systemd);
}

function slicePath(parts: readonly string[]): string {
  const names = parts.map((part) => part.replaceAll("-", "_"));
  return `/${names.map((_name, index) => `${names.slice(0, index + 1).join("-")}.slice`).join("/")}`;
}

function podOf(name: string, requests: object, limits: object): NodePod {
  const container = { name: "main", image: "app:1", resources: { requests, limits } } as ContainerSpec; // quantities by resource name
  return nodePod({ name, uid: `${Buffer.from(name).toString("hex").padEnd(8, "0")}-0000-4000-8000-000000000001`, containers: [container] });
}

const PODS = [
  podOf("guaranteed", { cpu: "200m", memory: "64Mi" }, { cpu: "200m", memory: "64Mi" }),
  podOf("burstable", { cpu: "500m", memory: "32Mi" }, { cpu: "1", memory: "64Mi" }),
  podOf("in-part", { cpu: "30m" }, { memory: "64Mi" }),
  podOf("besteffort", {}, {}),
];

interface Node {
  readonly cgroups: Cgroups;
  create(pod: NodePod): Promise<void>;
  destroy(name: string): Promise<void>;
  pathOf(name: string): string;
  unitOf(name: string): string;
  processes(name: string): Promise<number | undefined>;
  /** Returns the contents of the kernel files of all groups, by the name of the pod or QoS class. */
  bounds(more?: readonly NodePod[]): Promise<Readonly<Record<string, Readonly<Record<string, string>>>>>;
  /** Properties of the pod's unit, in the given order. */
  show(name: string, properties: readonly string[]): Promise<readonly string[]>;
  end(): Promise<void>;
}

/** Creates the control groups of a node with the pods above. */
async function startNode(cgroupDriver: NodeOptions["cgroupDriver"]): Promise<Node> {
  const options: NodeOptions = { ...OPTIONS, cgroupDriver, cgroupRoot: "/judged", cgroups: { ...OPTIONS.cgroups, podMaxPids: 333 } };
  const roots = [kubepodsCgroup(options)];
  const own = createSystemd([{ file: PRIVATE }]);
  const cgroups = await (cgroupDriver === "systemd" ? opener(own)(roots) : createCgroups({ roots }));
  const manager = new ContainerManager({
    cgroups,
    options,
    store: createMemoryNodeStore(),
    pods: { desired: () => PODS },
    condition: { sourcesReady: true },
    record: () => undefined,
    log: recordingLog(),
    resources: { ...MACHINE, pids: 4000 },
  });
  await manager.maintain();
  for (const pod of PODS) await manager.create(pod);
  await manager.updateQos();
  const pathOf = (name: string): string => podCgroup(options, PODS.find(({ metadata }) => metadata.name === name) ?? podOf(name, {}, {}));
  const unitOf = (name: string): string => basename(pathOf(name));
  const kubepods = kubepodsCgroup(options);
  const [burstable, bestEffort] = [dirname(pathOf("burstable")), dirname(pathOf("besteffort"))];
  return {
    cgroups,
    create: (pod) => manager.create(pod),
    destroy: (name) => manager.destroy(PODS.find(({ metadata }) => metadata.name === name)?.metadata.uid ?? ""),
    pathOf,
    unitOf,
    processes: (name) => cgroups.processes(pathOf(name)),
    async bounds(more = []) {
      const paths = { kubepods, Burstable: burstable, BestEffort: bestEffort };
      const pods = [...PODS, ...more].map((pod) => [pod.metadata.name, podCgroup(options, pod)] as const);
      const read = async (path: string): Promise<Readonly<Record<string, string>>> =>
        Object.fromEntries(
          await Promise.all(FILES.map(async (file) => [file, (await readFile(join(MOUNT, path, file), "utf8")).trim()] as const)),
        );
      return Object.fromEntries(
        await Promise.all([...Object.entries(paths), ...pods].map(async ([name, path]) => [name, await read(path)] as const)),
      );
    },
    async show(name, properties) {
      const { stdout } = await run("systemctl", ["show", unitOf(name), ...properties.map((property) => `--property=${property}`)]);
      return stdout.trim().split("\n").toSorted();
    },
    async end() {
      await cgroups.remove(kubepods);
      await rmdir(join(MOUNT, dirname(kubepods))).catch(() => undefined); // systemd removes the empty group
    },
  };
}

/** Names of systemd's files and folders, and of control groups, that contain the name. */
async function leftOf(name: string): Promise<readonly string[]> {
  const folders = ["/run/systemd", MOUNT];
  const found = await Promise.all(
    folders.map(async (folder) => (await readdir(folder, { recursive: true })).map((path) => join(folder, path))),
  );
  return found.flat().filter((path) => path.includes(name));
}
