/**
 * Verifies claims of another controller's writes (informer §11.9): reads the object from the API server as it was one version before.
 * Claims are rare unless two controllers fight or a user forges them, and each costs one GET.
 *
 * IQ1 at most one claim per object waits, the first one. So a user who forges claims delays other claims by at most one GET per object.
 * IQ2 the read is retried while it fails. The claim is dropped once etcd has compacted that version, or after TRIES_MAX failures; the other
 *     controller's next write makes a new claim.
 */
import { describeError, isGone } from "@deltaloop/kube/client";
import { isResourceVersion, splitKey } from "@deltaloop/kube/objects";
import type { Clock, Log } from "@deltaloop/base";
import type { KubeWatch } from "@deltaloop/kube/client";
import type { ForeignWrite } from "@deltaloop/store/ports";
import { proven } from "./foreign-write.ts";
import type { Claim } from "./foreign-write.ts";

export interface InquiryPorts {
  readonly kube: Pick<KubeWatch, "listPage">;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Inquiry {
  ask(claim: Claim): void;
  /** Resolves when all earlier claims are verified or dropped. */
  settled(): Promise<void>;
  /** Runs until `signal` aborts; pending claims are then dropped. */
  run(signal: AbortSignal): Promise<void>;
}

const AT_ONCE = 4;
const RETRY_MS = 1_000;
/** At one try a second, this is longer than the API server keeps old versions (5 minutes). */
const TRIES_MAX = 600;

interface Case {
  readonly claim: Claim;
  readonly closed: Promise<void>;
  close(): void;
}

export function createInquiry({ kube, clock, log }: InquiryPorts, found: (write: ForeignWrite) => void): Inquiry {
  const waiting = new Map<string, Case>();
  const open = new Set<Case>();
  let came = Promise.withResolvers<void>();
  let isOver = false;

  const before = async ({ resource, key, rv }: Claim, signal: AbortSignal): Promise<unknown> => {
    const { namespace, name } = splitKey(key);
    const query = {
      fieldSelector: `metadata.namespace=${namespace},metadata.name=${name}`,
      resourceVersion: String(BigInt(rv) - 1n),
      resourceVersionMatch: "Exact" as const,
    };
    return (await kube.listPage(resource, query, signal)).items[0];
  };
  const lookInto = async ({ claim }: Case, signal: AbortSignal): Promise<void> => {
    for (let tries = 1; !signal.aborted; tries++) {
      try {
        const write = proven(claim, await before(claim, signal));
        if (write) found(write);
        return;
      } catch (error) {
        const { resource, key } = claim;
        const fields = { resource, key, error: describeError(error) };
        if (isGone(error) || tries === TRIES_MAX) return log.warn("gave up looking up the writer of a status", fields);
        if (tries === 1) log.warn("failed to look up the writer of a status, retrying", fields);
        await clock.after(RETRY_MS, signal).catch(() => undefined);
      }
    }
  };
  const work = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      const [next] = waiting;
      if (!next) {
        await came.promise;
        continue;
      }
      waiting.delete(next[0]);
      await lookInto(next[1], signal);
      next[1].close();
    }
  };
  return {
    ask(claim) {
      const place = `${claim.resource} ${claim.key}`;
      if (isOver || waiting.has(place) || !isResourceVersion(claim.rv) || claim.entries.every(({ fields }) => fields.length === 0)) return;
      const { promise: closed, resolve } = Promise.withResolvers<void>();
      const made: Case = { claim, closed, close: () => (open.delete(made), resolve()) };
      open.add(made);
      waiting.set(place, made);
      came.resolve();
      came = Promise.withResolvers();
    },
    async settled() {
      await Promise.all([...open].map(({ closed }) => closed));
    },
    async run(signal) {
      signal.addEventListener("abort", () => came.resolve(), { once: true });
      await Promise.all(Array.from({ length: AT_ONCE }, () => work(signal)));
      isOver = true;
      for (const each of open) each.close();
    },
  };
}
