/** Collects the data of `/stats/summary` on request (node-agent §15). */
import type { ContainerStats } from "../../ports/cri-types.ts";
import type { MachineStats } from "../../ports/machine.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { countsForEviction, type PodUsages } from "../eviction/usage.ts";
import { CpuRates } from "./cpu-rates.ts";
import { summaryOf } from "./summary.ts";
import { measurePods, type MeasurePodsPorts } from "../eviction/measure.ts";
import { volumePlaces } from "../volume/volume-measures.ts";

type DiskPorts = MeasurePodsPorts & Pick<NodePorts, "pods" | "options">;
type SummaryPorts = DiskPorts & Pick<NodePorts, "clock">;

/** The summary provider. The dependencies are attached later, because the server starts before the agent. */
export class SummaryProvider {
  readonly #machine: () => Promise<MachineStats>;
  readonly #rates = new CpuRates();
  #ports: SummaryPorts | undefined;

  constructor(machine: () => Promise<MachineStats>) {
    this.#machine = machine;
  }

  attach(ports: SummaryPorts): void {
    this.#ports = ports;
  }

  /** @throws the error of the runtime or the machine */
  async summary({ onlyCpuAndMemory }: { readonly onlyCpuAndMemory: boolean }): Promise<object> {
    const ports = this.#ports;
    if (ports === undefined) throw new Error("the agent is still starting");
    const { cri, clock, options } = ports;
    const [machine, sandboxes, containers, stats] = await Promise.all([
      this.#machine(),
      cri.listPodSandbox(),
      cri.listContainers({ state: "CONTAINER_RUNNING" }),
      cri.listContainerStats(),
    ]);
    return summaryOf({
      ...{ nodeName: options.nodeName, nowMs: clock.now(), machine, sandboxes, containers, stats },
      nanoCores: this.#rates.seen([["", { timestampMs: machine.timestampMs, nanoSeconds: machine.cpuSeconds * 1e9 }], ...samplesOf(stats)]),
      ...(!onlyCpuAndMemory && { disk: await diskOf(ports) }),
    });
  }
}

function samplesOf(stats: readonly ContainerStats[]): Parameters<CpuRates["seen"]>[0] {
  return stats.flatMap(({ id, cpu }) =>
    cpu === undefined ? [] : [[id, { timestampMs: cpu.timestampMs, nanoSeconds: cpu.usageCoreNanoSeconds }] as const],
  );
}

async function diskOf(ports: DiskPorts): Promise<NonNullable<Parameters<typeof summaryOf>[0]["disk"]>> {
  const { cri, files, options, pods } = ports;
  const [usages, nodeFs, [usage]] = await Promise.all([
    measurePods(ports, pods.desired()).then((measured) => withAgentVolumes(ports, measured)),
    files.diskSpace(options.rootDir),
    cri.imageFsInfo(),
  ]);
  const space = usage && (await files.diskSpace(usage.mountpoint));
  return { usages, nodeFs, imageFs: usage && space && { usage, space } };
}

/** Adds volumes to which only the agent writes. They are small, and are not measured for eviction. */
async function withAgentVolumes({ files, pods }: Pick<NodePorts, "files" | "pods">, usages: PodUsages): Promise<PodUsages> {
  const whole = pods.desired().flatMap((pod) => {
    const usage = usages.get(pod.metadata.uid);
    return usage === undefined ? [] : [{ pod, usage }];
  });
  const measured = whole.map(async ({ pod, usage }) => {
    const volumes = new Map(usage.volumes);
    for (const place of volumePlaces(pod, (volume) => !countsForEviction(volume))) {
      const own = await files.volumeUsage(place).catch(() => undefined);
      if (own !== undefined) volumes.set(place.name, own);
    }
    return [pod.metadata.uid, { ...usage, volumes }] as const;
  });
  return new Map(await Promise.all(measured));
}
