/** Options of `deltaloop node` for cgroups and reserved resources. */
import { writeFile } from "node:fs/promises";
import type { Command } from "commander";
import {
  kubepodsCgroup,
  reservedCgroup,
  parseReserved,
  ReservedError,
  together,
  ENFORCEMENTS,
  reservedTooMuch,
} from "@deltaloop/node-agent/kubelet";
import type {
  MachineFacts,
  EvictionPolicy,
  CgroupPolicy,
  NodeAllocatableEnforcement,
  NodeOptions,
  ReservedGroup,
} from "@deltaloop/node-agent/kubelet";
import type { Log } from "@deltaloop/base";
import { messageOf } from "@deltaloop/kube/objects";
import { trueOrFalse, UsageError, wholeNumber } from "@deltaloop/base";

/** Options as commander parses them. */
export interface CgroupFlags {
  readonly cgroupsPerQos: boolean;
  readonly enforceNodeAllocatable: string;
  readonly kubeReserved: string;
  readonly kubeReservedCgroup?: string;
  readonly systemReserved: string;
  readonly systemReservedCgroup?: string;
  readonly podMaxPids: number;
  readonly oomScoreAdj: number;
}

const OOM_SCORE_MAX = 1000;
const PIDS_MAX = 2 ** 22;

/** Names, forms and defaults are the kubelet's. Source: cmd/kubelet/app/options/options.go; apis/config/v1beta1/defaults.go. */
export function addCgroupFlags(command: Command): Command {
  return command
    .optionsGroup("Resources and cgroups:")
    .option("--cgroups-per-qos [boolean]", "create a cgroup for each pod and QoS class", trueOrFalse("--cgroups-per-qos"), true)
    .option("--enforce-node-allocatable <list>", `limits to enforce: none, or a list of ${ENFORCEMENTS.join(", ")}`, "pods")
    .option(
      "--kube-reserved <list>",
      "resources reserved for the agent and the runtime, such as cpu=200m,memory=500Mi,ephemeral-storage=1Gi,pid=1000",
      "",
    )
    .option("--kube-reserved-cgroup <path>", "cgroup to enforce --kube-reserved on")
    .option("--system-reserved <list>", "resources reserved for other processes of the machine", "")
    .option("--system-reserved-cgroup <path>", "cgroup to enforce --system-reserved on")
    .option(
      "--pod-max-pids <n>",
      "maximum processes of a pod; -1 for no limit",
      wholeNumber("--pod-max-pids", { min: -1, max: PIDS_MAX }),
      -1,
    )
    .option(
      "--oom-score-adj <n>",
      "OOM score adjustment of the agent",
      wholeNumber("--oom-score-adj", { min: -OOM_SCORE_MAX, max: OOM_SCORE_MAX }),
      -999,
    );
}

/** Source: pkg/kubelet/apis/config/validation/validation.go. @throws {UsageError} */
export function cgroupPolicy(flags: CgroupFlags): CgroupPolicy {
  const enforce = enforcements(flags.enforceNodeAllocatable);
  if (enforce.length > 0 && !flags.cgroupsPerQos)
    throw new UsageError("--enforce-node-allocatable needs --cgroups-per-qos=true: set it to none, or leave out --cgroups-per-qos");
  return {
    perQos: flags.cgroupsPerQos,
    enforce,
    kubeReserved: reservedGroup("kube-reserved", flags.kubeReserved, flags.kubeReservedCgroup, enforce),
    systemReserved: reservedGroup("system-reserved", flags.systemReserved, flags.systemReservedCgroup, enforce),
    podMaxPids: flags.podMaxPids,
  };
}

function enforcements(text: string): readonly NodeAllocatableEnforcement[] {
  const names = text.split(",").filter((name) => name !== "");
  if (names.includes("none") && names.length > 1)
    throw new UsageError('--enforce-node-allocatable: "none" cannot be combined with other values');
  return names.flatMap((name) => {
    if (name === "none") return [];
    const known = ENFORCEMENTS.find((one) => one === name);
    if (known === undefined)
      throw new UsageError(`--enforce-node-allocatable takes none, or a comma-separated list of ${ENFORCEMENTS.join(", ")}; not "${name}"`);
    return [known];
  });
}

function reservedGroup(
  key: "kube-reserved" | "system-reserved",
  text: string,
  cgroup: string | undefined,
  enforce: readonly NodeAllocatableEnforcement[],
): ReservedGroup {
  const levels = [key, `${key}-compressible`] as const;
  const asked = levels.filter((level) => enforce.includes(level));
  if (asked.length > 1) throw new UsageError(`--enforce-node-allocatable takes ${levels.join(" or ")}, not both`);
  if (asked.length > 0 && cgroup === undefined) throw new UsageError(`--enforce-node-allocatable=${asked.join()} needs --${key}-cgroup`);
  try {
    return { resources: parseReserved(text), ...(cgroup !== undefined && { cgroup: `/${cgroup.split("/").filter(Boolean).join("/")}` }) };
  } catch (error) {
    throw error instanceof ReservedError ? new UsageError(`--${key}: ${error.message}`) : error;
  }
}

/** Adds the reserved resources to the facts of the machine. @throws {UsageError} if the options reserve more than the machine has */
export function withReserved(facts: MachineFacts, { kubeReserved, systemReserved }: CgroupPolicy, eviction: EvictionPolicy): MachineFacts {
  const resources = { ...facts.resources, reserved: together(kubeReserved.resources, systemReserved.resources) };
  const tooMuch = reservedTooMuch(resources, eviction);
  if (tooMuch.length > 0)
    throw new UsageError(`--kube-reserved, --system-reserved and --eviction-hard reserve more than the machine has: ${tooMuch.join(", ")}`);
  return { ...facts, resources };
}

/** The cgroups that the agent may change. */
export function cgroupRoots(options: NodeOptions): readonly string[] {
  const { kubeReserved, systemReserved } = options.cgroups;
  const reserved = [kubeReserved, systemReserved].flatMap(({ cgroup }) => (cgroup === undefined ? [] : [reservedCgroup(options, cgroup)]));
  return [kubepodsCgroup(options), ...reserved];
}

/** Logs a failure, as upstream does. Source: pkg/util/oom/oom_linux.go; cmd/kubelet/app/server.go RunKubelet. */
export async function setOomScore(oomScoreAdj: number, log: Log, file = "/proc/self/oom_score_adj"): Promise<void> {
  await writeFile(file, String(oomScoreAdj)).catch((error: unknown) =>
    log.warn("failed to set the agent's OOM score", { oomScoreAdj, error: messageOf(error) }),
  );
}
