/**
 * The watcher's part of the guard (informer §11.9): detects another controller's writes and has the Store stop all keys until a user
 * resumes. The Store's part is GD1–GD7 (shared/store/ports/guard-store.ts).
 *
 * FG1 a write counts if it is proven (inquiry.ts) and later than both the start of this process' leadership and the last resume.
 * FG2 it is reported at once and again each second until the Store says that it is forgiven. So a stop that is lost with Redis or the
 *     Lease returns while this process lives.
 * FG3 of several writes the newest is reported; forgiving it forgives the others.
 * FG4 no term begins, so no gate opens in a new epoch, before the Store has answered and pending claims are verified (for at most
 *     ASK_MS_MAX, so that an unresponsive API server does not block everything).
 * FG5 a stop that exists when a term begins is from then on reported by this process too.
 * FG6 no write is dated later than now, by the API server's clock as measured at the beginning: a time beyond the allowed clock skew
 *     counts as now.
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
  /** This process leads from `nowMs` on, by the API server's clock, rounded up. */
  begin(nowMs: number): void;
  /** Inspects each incoming object, before it is stripped. */
  look(resource: CachedResource, object: unknown): void;
  /** @throws if the Store does not answer; the term must not begin */
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
    log.warn("resumed by a user: earlier writes of the other controller are forgiven", {
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
          log.warn("failed to report another controller's write, retrying", { error: describeError(error) }),
        );
        if (seen) await clock.after(REPORT_MS, signal).catch(() => undefined);
      }
      await inquiring;
    },
  };
}
