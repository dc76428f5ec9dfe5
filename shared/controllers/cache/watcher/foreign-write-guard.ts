/**
 * The watcher's part of the guard (informer §11.9): sees another controller's writes and has the Store stop everything, until a person has
 * forgiven them. The Store's part is GD1–GD7 (shared/store/ports/guard-store.ts).
 *
 * FG1 a write counts that is proven (inquiry.ts) and later than the moment in which this process began to lead, and than what was forgiven.
 * FG2 it is reported at once, and again each second until the Store says that it is forgiven: whatever becomes of Redis and of the Lease, a
 *     stop that is taken away is back, as long as this process lives.
 * FG3 of several the newest is reported: what forgives it forgives the others.
 * FG4 no term begins, so no gate opens in a new epoch, before that was answered, and before what has come until then is looked into (for
 *     ASK_MS_MAX; an API server that does not answer may not keep all from beginning).
 * FG5 a stop that stands when a term begins is this process' own from then on, whoever saw it.
 * FG6 no write is of later than now, by the API server's clock as measured at the beginning: what is later by more than
 *     clocks differ is taken as of now.
 */
import type { CachedResource } from "@deltaloop/kube/objects";
import { describeError } from "@deltaloop/kube/client";
import type { ForeignWrite, Stop, Store } from "@deltaloop/store/ports";
import { describeStop, SKEW_MS } from "@deltaloop/store/ports";
import { claimOf } from "./foreign-write.ts";
import { createInquiry } from "./inquiry.ts";
import type { InquiryPorts } from "./inquiry.ts";

export interface ForeignWriteGuardPorts extends InquiryPorts {
  readonly store: Pick<Store, "guard" | "reportForeignWrite">;
}

export interface ForeignWriteGuard {
  /** This process leads from `nowMs` on, by the API server's clock and rounded up. */
  begin(nowMs: number): void;
  /** Is shown each object that comes, as it came. */
  look(resource: CachedResource, object: unknown): void;
  /** @throws when the Store does not answer: then the term may not begin */
  beforeTerm(): Promise<void>;
  /** Reports until `signal` aborts. */
  run(signal: AbortSignal): Promise<void>;
}

const REPORT_MS = 1_000;
const ASK_MS_MAX = 5_000;

export function createForeignWriteGuard({ store, kube, clock, log }: ForeignWriteGuardPorts): ForeignWriteGuard {
  let beginningMs = Infinity;
  let aheadMs = 0;
  let forgivenMs = 0;
  let seen: ForeignWrite | undefined;
  let wasTold = false;
  let wake = (): void => undefined;

  const sinceMs = (): number => Math.max(beginningMs, forgivenMs, seen?.atMs ?? 0);
  const saw = (write: ForeignWrite): void => {
    seen = { ...write, atMs: Math.min(write.atMs, clock.now() + aheadMs + SKEW_MS) }; // FG6
    wake();
  };
  const inquiry = createInquiry({ kube, clock, log }, (write) => {
    if (write.atMs > sinceMs()) saw(write); // FG3
  });
  const tell = (stop: Stop): void => {
    if (wasTold) return;
    wasTold = true;
    log.error("another controller is at work: no key is handed out until deltaloop resume", { why: describeStop(stop) });
  };
  const report = async (): Promise<void> => {
    if (!seen) return;
    const answer = await store.reportForeignWrite(seen, clock.now());
    if (answer.kind === "stopped") return tell({ kind: "seen", write: seen, sinceMs: clock.now() });
    forgivenMs = Math.max(forgivenMs, answer.forgivenMs);
    if (seen.atMs > forgivenMs) return; // it came while the Store was asked
    seen = undefined;
    wasTold = false;
    log.warn("a person has said that we go on: what another controller has written is forgiven", {
      until: new Date(forgivenMs).toISOString(),
    });
  };
  return {
    begin(nowMs) {
      beginningMs = nowMs;
      aheadMs = nowMs - clock.now();
    },
    look(resource, object) {
      const claim = claimOf(resource, object, sinceMs());
      if (claim) inquiry.ask(claim);
    },
    async beforeTerm() {
      const settled = new AbortController();
      await Promise.race([inquiry.settled(), clock.after(ASK_MS_MAX, settled.signal).catch(() => undefined)]);
      settled.abort();
      await report();
      const { stop, ...state } = await store.guard();
      forgivenMs = Math.max(forgivenMs, state.forgivenMs);
      if (!stop) return;
      tell(stop);
      if (stop.kind === "seen" && stop.write.atMs > Math.max(forgivenMs, seen?.atMs ?? 0)) saw(stop.write);
    },
    async run(signal) {
      const inquiring = inquiry.run(signal);
      signal.addEventListener("abort", () => wake(), { once: true });
      while (!signal.aborted) {
        if (!seen) await new Promise<void>((resolve) => (wake = resolve));
        await report().catch((error: unknown) =>
          log.warn("another controller's write is not reported yet", { error: describeError(error) }),
        );
        if (seen) await clock.after(REPORT_MS, signal).catch(() => undefined);
      }
      await inquiring;
    },
  };
}
