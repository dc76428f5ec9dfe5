/**
 * What `kubectl top` shows of a node with a pod that is busy and one that is idle, and what is wrong with it. Catches: a metric that
 * metrics-server does not find or takes for another, a wrong unit, times that give a wrong rate, and a scrape that is not let in.
 */
import { eventually } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { podOf, podReady, shell, STAY } from "../harness/node-processes/pods.ts";
import { RESOLUTION_SECONDS } from "./metrics-server.ts";
import type { MetricsServer } from "./metrics-server.ts";
import { NAME } from "../harness/node-processes/compared-node.ts";

/** One container, or a node. */
export interface Use {
  readonly cpuMillis: number;
  readonly memoryMiB: number;
}

export interface Top {
  /** As printed. */
  readonly text: string;
  readonly node: Use | undefined;
  /** By `pod/container`. */
  readonly containers: Readonly<Record<string, Use>>;
  /** Since metrics-server was started. */
  readonly scrapes: number;
}

const BUSY_LIMIT_MILLIS = 200;
/** A quarter more and less: a scrape lasts, and the kernel hands out a limit in slices of 100 ms. */
const BUSY_MILLIS = { min: 150, max: 250 };
const IDLE_MILLIS_MAX = 20;
/** Of a machine that works on all its processors: figures are as old as their time says, but for the time it takes to read them. */
const RATE_ERROR = 0.05;
/** What a variable of each shell is made to hold, and what is shown then: a shell's own size is nothing in MiB. */
const HELD_MIB = 12;
const SHOWN_MIB = { min: 10, max: 24 };
/** A rate needs two of each. */
const SCRAPES_MAX = 2;
const BUSY = "busy/main";
const IDLE = ["idle/main", "idle/side"];

/** They run when it resolves. */
export async function startTopPods(cluster: Cluster): Promise<void> {
  const limits = { cpu: `${BUSY_LIMIT_MILLIS}m` };
  await cluster.apply(
    podOf("busy", { containers: [holding("main", "while true; do :; done", { resources: { limits } })] }),
    podOf("idle", { containers: [holding("main", STAY), holding("side", STAY)] }),
  );
  await Promise.all(["busy", "idle"].map((name) => podReady(cluster, name)));
}

/** Started once it has its memory, so that what it costs to get it is in no rate. */
function holding(name: string, script: string, more: object = {}): object {
  const hold = `held=$(busybox head -c ${HELD_MIB * 2 ** 20} /dev/zero | busybox tr '\\0' x); echo >/tmp/held; ${script}`;
  return shell(name, hold, { ...more, startupProbe: { exec: { command: ["ls", "/tmp/held"] }, periodSeconds: 1, failureThreshold: 60 } });
}

/** What there is once the node and all containers are shown, or after one scrape more than that may take. @throws when it does not scrape */
export async function topOf({ plane }: Cluster, metricsServer: MetricsServer): Promise<Top> {
  const look = async (): Promise<Top | false> => {
    const [nodes, pods] = [await plane.kubectl(["top", "node"]), await plane.kubectl(["top", "pod", "--containers"])];
    const top = {
      text: [nodes, pods].map(({ stdout, stderr }) => stdout + stderr).join(""),
      node: usesIn(nodes.stdout, 1)[NAME],
      containers: usesIn(pods.stdout, 2),
      scrapes: await metricsServer.scrapes(),
    };
    const isWhole = top.node !== undefined && [BUSY, ...IDLE].every((name) => name in top.containers);
    return (isWhole || top.scrapes > SCRAPES_MAX) && top;
  };
  return await eventually(`${SCRAPES_MAX + 1} scrapes of metrics-server`, look, (SCRAPES_MAX + 1) * RESOLUTION_SECONDS * 1000);
}

/** A sentence for each thing that cannot be. */
export function wrongIn({ node, containers, scrapes }: Top, machine: Use): readonly string[] {
  const wrong: string[] = [];
  const check = (holds: boolean, sentence: string): void => void (holds || wrong.push(sentence));
  const shown = (name: string, look: (use: Use) => void): void => {
    const use = containers[name];
    if (use === undefined) wrong.push(`kubectl top pod shows no ${name}`);
    else look(use);
  };
  check(scrapes <= SCRAPES_MAX, `not all of it is shown within ${SCRAPES_MAX} scrapes`);
  const { min, max } = BUSY_MILLIS;
  shown(BUSY, ({ cpuMillis: cpu }) => check(cpu >= min && cpu <= max, `${BUSY} uses ${cpu}m, not ${min}m to ${max}m`));
  for (const name of IDLE)
    shown(name, ({ cpuMillis: cpu }) => check(cpu < IDLE_MILLIS_MAX, `${name} uses ${cpu}m, not less than ${IDLE_MILLIS_MAX}m`));
  const memory = Object.entries(containers).map(([name, use]) => [name, use.memoryMiB] as const);
  for (const [name, mebibytes] of memory)
    check(
      mebibytes >= SHOWN_MIB.min && mebibytes <= SHOWN_MIB.max,
      `${name} uses ${mebibytes} MiB, not ${SHOWN_MIB.min} to ${SHOWN_MIB.max}`,
    );
  if (node === undefined) return [...wrong, `kubectl top node shows no ${NAME}`];
  const { cpuMillis, memoryMiB } = node;
  const most = machine.cpuMillis * (1 + RATE_ERROR);
  check(cpuMillis >= min && cpuMillis <= most, `the node uses ${cpuMillis}m, not ${min}m to ${most}m`);
  const least = memory.reduce((sum, [, mebibytes]) => sum + mebibytes, 0);
  check(
    memoryMiB > least && memoryMiB <= machine.memoryMiB,
    `the node uses ${memoryMiB} MiB, not more than its pods' ${least} and at most ${machine.memoryMiB}`,
  );
  return wrong;
}

/** `judged 412m 20% 1833Mi 23%`, `busy main 200m 0Mi`: the first words are the name. */
function usesIn(table: string, words: number): Readonly<Record<string, Use>> {
  const lines = table.trimEnd().split("\n").slice(1);
  return Object.fromEntries(
    lines.map((line) => {
      const fields = line.trim().split(/\s+/u);
      const [cpu = "", memory = ""] = fields.slice(words).filter((field) => !field.endsWith("%"));
      return [fields.slice(0, words).join("/"), { cpuMillis: amount(cpu, "m"), memoryMiB: amount(memory, "Mi") }];
    }),
  );
}

/** Not a number where the unit is another. */
function amount(text: string, unit: string): number {
  return text.endsWith(unit) ? Number(text.slice(0, -unit.length)) : Number.NaN;
}
