/** Divides the CPU time of a process into pieces, by the stacks of its CPU profile. */
import { readFile } from "node:fs/promises";

/** Whether the same work exists on AWS: `aws`, billed as the function's or the watcher's time; `local`: it replaces a service of AWS. */
export type Where = "aws" | "local";

interface Piece {
  readonly title: string;
  readonly where: Where;
  /** Path of a module of ours, or name of a package. */
  readonly owns: RegExp;
}

/** The first that owns the nearest caller with a known module. */
const PIECES: readonly Piece[] = [
  {
    title: "SQS emulator: HTTP and queue",
    where: "local",
    owns: /^(fastify|fauxqs|light-my-request|find-my-way|toad-cache|avvio)$|^local\/fauxqs/,
  },
  { title: "event source mapping, invocations", where: "local", owns: /^local\/|^cli\/queue|^store\/sqs\/message-source/ },
  { title: "Redis requests", where: "aws", owns: /^ioredis$|^denque$|^@ioredis|^store\/redis\// },
  { title: "SQS requests", where: "aws", owns: /^store\/(sqs|aws)\/|^@smithy|^@aws/ },
  {
    title: "API server requests: HTTP, TLS, JSON",
    where: "aws",
    owns: /^base\/(http|exact-json)|^kube\/(http|client|list-watch|protobuf)\//,
  },
  { title: "MACs and digests", where: "aws", owns: /^store\/signer|^kube\/pod-template\/|^controllers\/kit\/sealed|signed-body/ },
  { title: "changes to messages", where: "aws", owns: /^controllers\/cache\/watcher\/|^kube\/strip\// },
  { title: "applier", where: "aws", owns: /^controllers\/cache\// },
  { title: "decisions", where: "aws", owns: /^controllers\/(deployment|replicaset|replication)\// },
  { title: "syncs: intents, leases, write gateway, Events", where: "aws", owns: /^controllers\/|^kube\/|^store\/|^functions\// },
];
const OTHER = { title: "timers, streams, metrics, logs", where: "aws" } as const;
const GC = { title: "garbage collection on the main thread", where: "aws" } as const;

interface CallFrame {
  readonly functionName: string;
  readonly url: string;
}

/** A profile as Node.js writes it, times in µs. */
interface Profile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: CallFrame; readonly children?: readonly number[] }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** The shares of a process's busy time in a profile, by title. They add up to 1. */
export async function sharesOf(file: string): Promise<ReadonlyMap<string, { readonly where: Where; readonly share: number }>> {
  const { nodes, samples, timeDeltas } = JSON.parse(await readFile(file, "utf8")) as Profile; // written by Node.js
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  const pieces = new Map(nodes.map(({ id }) => [id, pieceOf(id, frames, parents)]));
  const sums = new Map<string, { where: Where; us: number }>();
  let totalUs = 0;
  for (const [index, id] of samples.entries()) {
    const piece = pieces.get(id);
    if (piece === undefined) continue;
    const us = Math.max(0, timeDeltas[index + 1] ?? 0);
    const sum = sums.get(piece.title) ?? { where: piece.where, us: 0 };
    sum.us += us;
    sums.set(piece.title, sum);
    totalUs += us;
  }
  return new Map([...sums].map(([title, { where, us }]) => [title, { where, share: us / totalUs }]));
}

/** Undefined for idle time. */
function pieceOf(
  id: number,
  frames: ReadonlyMap<number, CallFrame>,
  parents: ReadonlyMap<number, number>,
): { readonly title: string; readonly where: Where } | undefined {
  const name = frames.get(id)?.functionName;
  if (name === "(idle)" || name === "(root)") return undefined;
  if (name === "(garbage collector)") return GC;
  for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
    const owner = ownerOf(frames.get(at)?.url ?? "");
    if (owner !== undefined) return PIECES.find(({ owns }) => owns.test(owner)) ?? OTHER;
  }
  return OTHER;
}

/** The name of a package, or the path of a module of ours without `shared/`. Undefined for Node.js. */
function ownerOf(url: string): string | undefined {
  const inPackage = /.*node_modules\/(?<name>(?:@[^/]+\/)?[^/]+)/u.exec(url)?.groups?.["name"];
  if (inPackage !== undefined && !inPackage.startsWith("@deltaloop/")) return inPackage;
  return /\/(?:shared\/)?(?<path>(?:base|kube|store|controllers|local|functions|cli)\/.*)$/u.exec(url)?.groups?.["path"];
}
