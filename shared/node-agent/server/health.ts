/** Serves `/healthz` and the checks below it. Source: apiserver pkg/server/healthz; pkg/kubelet/kubelet.go SyncLoopHealthCheck. */
import type { ServerResponse } from "node:http";
import { answer } from "./answer.ts";

interface HealthRequest {
  readonly check?: string;
  readonly query: URLSearchParams;
  readonly nowMs: number;
  readonly lastLoopMs: number;
}

/** Maximum time without sync loop activity. Upstream uses the larger of this value and twice the resync interval, which is smaller. */
const SYNC_LOOP_SILENCE_MS_MAX = 5 * 60_000;

type Check = (request: HealthRequest) => string | undefined;

/** Checks by name. A check returns the reason of its failure. */
const CHECKS: ReadonlyMap<string, Check> = new Map<string, Check>([
  ["ping", () => undefined],
  ["syncloop", syncLoopSilence],
]);

export function syncLoopSilence({ nowMs, lastLoopMs }: Pick<HealthRequest, "nowMs" | "lastLoopMs">): string | undefined {
  return nowMs - lastLoopMs > SYNC_LOOP_SILENCE_MS_MAX ? "sync Loop took longer than expected" : undefined;
}

/**
 * The list of all checks withholds the reasons of failures; the path of a single check shows its reason. `?verbose` also lists the checks
 * that passed.
 */
export function healthz(response: ServerResponse, request: HealthRequest): void {
  const { check: name, query } = request;
  if (name !== undefined) {
    const check = CHECKS.get(name);
    if (check === undefined) return answer(response, 404, "404 page not found\n");
    const wrong = check(request);
    return wrong === undefined ? answer(response, 200, "ok") : answer(response, 500, `internal server error: ${wrong}\n`);
  }
  const results = [...CHECKS].map(([each, check]) => ({ each, failed: check(request) !== undefined }));
  const lines = results.map(({ each, failed }) => (failed ? `[-]${each} failed: reason withheld\n` : `[+]${each} ok\n`)).join("");
  if (results.some(({ failed }) => failed)) return answer(response, 500, `${lines}healthz check failed\n`);
  answer(response, 200, query.has("verbose") ? `${lines}healthz check passed\n` : "ok");
}
