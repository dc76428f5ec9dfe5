/** Checks of the agent itself: growth of memory, files and rows, and expired tokens. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { podOf, server } from "../../harness/node-processes/pods.ts";
import { TOKEN } from "./pod-kinds.ts";

export interface Sample {
  readonly files: number;
  readonly rssMiB: number;
}

const MIB_MORE_MAX = 20;
/** Minimum number of samples for the memory check; before that, memory still grows to its working size. */
const JUDGED_SAMPLES_MIN = 90;
/** Permitted growth in open files; the number of connections to API server and runtime varies. */
const FILES_MORE_MAX = 8;

/**
 * Returns the memory growth of a warm agent, also in words: the mean of the lower half of the last third of the samples, minus that of the
 * middle third.
 */
export function trendOf(samples: readonly Sample[]): { readonly moreMiB: number; readonly lastMiB: number; readonly words: string } {
  const third = Math.floor(samples.length / 3);
  const [middle, last] = [samples.slice(third, 2 * third), samples.slice(2 * third)].map((some) => quiet(some.map(({ rssMiB }) => rssMiB)));
  const files = samples.map((one) => one.files);
  const moreMiB = (last ?? 0) - (middle ?? 0);
  const words = `memory ${middle?.toFixed(0)} MiB, then ${last?.toFixed(0)} MiB; files ${Math.min(...files)} to ${Math.max(...files)}`;
  return { moreMiB, lastMiB: last ?? 0, words: samples.length === 0 ? "not looked at" : words };
}

/** Returns the mean of the lower half; the upper half contains uncollected garbage. */
function quiet(figures: readonly number[]): number {
  const lower = figures.toSorted((a, b) => a - b).slice(0, Math.ceil(figures.length / 2));
  return lower.reduce((sum, one) => sum + one, 0) / lower.length;
}

/** @param atEnd the sample after all pods have ended */
export function grown(samples: readonly Sample[], atEnd: Sample): readonly string[] {
  const least = Math.min(...samples.map(({ files }) => files));
  const { moreMiB } = trendOf(samples);
  return [
    ...(atEnd.files > least + FILES_MORE_MAX ? [`${atEnd.files} files and sockets are open, of ${least} at work`] : []),
    ...(samples.length >= JUDGED_SAMPLES_MIN && moreMiB > MIB_MORE_MAX ? [`${moreMiB.toFixed(0)} MiB more than before`] : []),
  ];
}

/**
 * Formats both sides' leftovers as a table with one line per kind.
 *
 *     control groups                    0        0
 *     shims                             1        0
 */
export function tableOf(kubelet: Figures, ours: Figures): readonly string[] {
  const line = (kind: string, theirs: string, own: string): string => `${kind.padEnd(28)} ${theirs.padStart(9)} ${own.padStart(9)}`;
  const lines = Object.keys(ours).map((kind) => line(kind, String(kubelet[kind]), String(ours[kind])));
  return [line("", "kubelet", "ours"), ...lines];
}

type Figures = Readonly<Record<string, number>>;

/** Returns the agent's remaining rows, without back-offs, which are kept for ten minutes. */
export async function rowsLeft(agentLog: string): Promise<readonly string[]> {
  const [, address] = /metrics and health: (\S+)\/metrics/u.exec(agentLog) ?? [];
  if (address === undefined) throw new Error("the agent has not logged the address of its metrics");
  const text = await (await fetch(`${address}/metrics`)).text();
  const rows = [...text.matchAll(/^deltaloop_node_rows\{table="(\w+)"\} (\d+)$/gmu)];
  if (rows.length === 0) throw new Error("the agent exports no row count");
  return rows.flatMap(([, table, count]) => (table !== "backOffs" && count !== "0" ? [`${count} rows of ${table}`] : []));
}

/** The name of a pod that runs during the whole test. */
export const KEEPER = "keeper";
/**
 * Maximum age: the token is refreshed after 80 % of its lifetime, by the next sync of the pod's worker, which is at most 90 s later.
 * Source: pkg/kubelet/token/token_manager.go.
 */
export const TOKEN_SECONDS_MAX = 0.8 * TOKEN.serviceAccountToken.expirationSeconds + 100;

export function keeper(node: string): object {
  return podOf(KEEPER, {
    nodeName: node,
    volumes: [{ name: "token", projected: { sources: [TOKEN] } }],
    containers: [server({ volumeMounts: [{ name: "token", mountPath: "/token" }] })],
  });
}

/** Returns the age of the keeper pod's token, from the file that its container reads. */
export async function tokenAgeSeconds(agentRoot: string, uid: string): Promise<number> {
  const token = await readFile(join(agentRoot, "pods", uid, "volumes/kubernetes.io~projected/token/token"), "utf8");
  // the claims of a service account token
  const { iat } = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as { readonly iat: number };
  return Date.now() / 1000 - iat;
}
