/**
 * A Kube client that calls the in-memory API server in the same process, and injects faults between client and server: requests are lost
 * before execution, executed with the response lost, executed late, rejected or slow. Faults and rejections are those of the
 * fault-injecting API server (test/fault-profile), in virtual time.
 */
import type { Call } from "../../shared/kube/http/calls.ts";
import type { KubeClient } from "../../shared/kube/http/client.ts";
import { kubeOver } from "../../shared/kube/http/kube-http.ts";
import { statusError } from "../../shared/kube/http/status-error.ts";
import type { ApiServer } from "../../shared/api-server/api-server.ts";
import { createInProcessClient } from "../../shared/api-server/in-process-client.ts";
import type { Clock } from "../../shared/base/clock.ts";
import { KubeApiError, UnansweredError } from "../../shared/kube/client/errors.ts";
import type { Kube, WatchFrame } from "../../shared/kube/client/kube.ts";
import type { Random } from "../../shared/base/random.ts";
import { OP_DEADLINE_MS, REQUEST_TIMEOUT_MS } from "../../shared/base/times.ts";
import type { Fault } from "../fault-profile/fault-profile.ts";
import { eventWithNewFields, withNewFields } from "../fault-profile/new-fields.ts";
import { deniedByWebhook, INTERNAL_ERROR, tooManyRequests, unavailable } from "../fault-profile/refusals.ts";
import type { Refusal } from "../fault-profile/refusals.ts";
import { lineOf } from "../../shared/kube/client/kube.ts";

export interface KubeOptions {
  readonly server: ApiServer;
  readonly clock: Clock;
  readonly random: Random;
  /** Also the field manager: `deltaloop-sync-replicaset`. */
  readonly component: string;
  /** Share of calls, and of watch batches, with a fault; called for each of them. */
  readonly faults: () => { readonly api: number; readonly watch: number };
  readonly observer?: KubeObserver;
  /** Disables a rule: sends DELETE without its precondition. */
  readonly dropPreconditions?: boolean;
  /** Longer failures of the whole API server. */
  readonly outages?: Outages;
  /** Requests and watches carry objects instead of JSON, unless a fault changes the text. */
  readonly passesObjects?: boolean;
  /** Whether the server that answers a list lags as far behind etcd as the request allows. */
  readonly lags?: () => boolean;
  /** Objects per page of a list. The default, 7, is so small that lists have several pages. */
  readonly pageSize?: number;
}

/** What all calls to one API server have in common while it fails. */
export interface Outages {
  /** Waits as long as the server makes each call wait. @throws the error of each call */
  call(signal: AbortSignal | undefined): Promise<void>;
  /** Aborts when the open streams break. */
  readonly cut: AbortSignal;
}

export interface KubeObserver {
  /** Called when a request will be executed after its sender has given up. */
  late(call: Pick<Call, "method" | "path" | "body">): void;
  /** Called for each fault of a call or a stream. */
  fault?(what: string): void;
  /** Called when a webhook has rejected a request. */
  denied?(call: Pick<Call, "method" | "path" | "body">, code: number): void;
  /** Called before a request is executed; `sent` is its body as sent. */
  executing(component: string, call: Pick<Call, "method" | "path" | "query" | "body">, sent: object | undefined): void;
}

/** The Store relies on no call being executed later than this. */
const LAND_WITHIN_MS = OP_DEADLINE_MS - 500;
const INACTIVITY_MS = 100_000;

/** The possible faults of a call: those of the fault-injecting API server, and two that only the simulation has. */
const FAULTS: readonly (
  | Extract<Fault, { kind: "loseRequest" | "loseAnswer" | "cutAnswer" | "refuse" | "refuseAfter" | "admitSlowly" | "addFields" }>
  /** Executed after its sender has given up. */
  | { readonly kind: "landLate" }
  /** Rejected with a random code, and only for requests that webhooks review. */
  | { readonly kind: "deny" }
)[] = [
  { kind: "loseRequest" },
  { kind: "loseAnswer" },
  { kind: "cutAnswer" },
  { kind: "landLate" },
  { kind: "refuse", with: tooManyRequests(1) },
  { kind: "refuse", with: INTERNAL_ERROR },
  { kind: "refuseAfter", with: unavailable() },
  { kind: "deny" },
  { kind: "addFields" },
  { kind: "admitSlowly", ms: 3_000 },
];
const DENIALS = [400, 403, 409, 422] as const;

/** Users configure webhooks for workloads, not for Leases and Events. */
function isOfWebhooks(method: string, path: string): boolean {
  return method !== "GET" && /\/(?:pods|replicasets|deployments|replicationcontrollers)(?:\/|$)/.test(path);
}

function errorOf({ code, retryAfterSeconds, body }: Refusal): KubeApiError {
  const headers = retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) };
  return statusError(code, headers, typeof body === "string" ? body : JSON.stringify(body));
}

export function createSimulatedKube(options: KubeOptions): Kube {
  const { server, clock, random, component, faults, pageSize = 7 } = options;
  const chance = (share: number): boolean => share > 0 && random.next() < share;
  const below = (max: number): number => Math.floor(random.next() * max);

  const faultless = createInProcessClient(server, { component, passesObjects: options.passesObjects ?? false });
  const client: KubeClient = {
    ...faultless,
    lines,
    async json({ signal, timeoutMs = REQUEST_TIMEOUT_MS, ...call }) {
      const { method, path, body } = call;
      const sent = options.dropPreconditions && method === "DELETE" ? {} : body;
      const run = (): Promise<unknown> => {
        options.observer?.executing(component, call, sent);
        return faultless.json({ ...call, ...(sent && { body: sent }) });
      };
      signal?.throwIfAborted();
      await options.outages?.call(signal);
      if (chance(faults().api)) {
        const fault = FAULTS[below(FAULTS.length)];
        options.observer?.fault?.(`call: ${fault?.kind}`);
        switch (fault?.kind) {
          case "loseRequest":
            await clock.after(timeoutMs, signal);
            throw new UnansweredError("simulated: the request was lost");
          case "loseAnswer":
            await clock.after(5 + below(40));
            await ended(run());
            await clock.after(timeoutMs, signal);
            throw new UnansweredError("simulated: the response was lost");
          case "cutAnswer":
            await clock.after(5 + below(40));
            await ended(run());
            throw new UnansweredError("simulated: the response was truncated");
          case "landLate":
            if (method !== "GET") {
              options.observer?.late(call);
              void clock.after(timeoutMs + below(LAND_WITHIN_MS - timeoutMs)).then(() => ended(run()));
            }
            await clock.after(timeoutMs, signal);
            throw new UnansweredError("simulated: the request timed out");
          case "refuse":
            await clock.after(5 + below(40), signal);
            throw errorOf(fault.with);
          case "refuseAfter":
            await clock.after(5 + below(40));
            await ended(run());
            throw errorOf(fault.with);
          case "deny":
            await clock.after(5 + below(40), signal);
            if (isOfWebhooks(method, path)) {
              const code = DENIALS[below(DENIALS.length)] ?? 403;
              options.observer?.denied?.(call, code);
              throw errorOf(deniedByWebhook(code));
            }
            break;
          case "addFields":
            await clock.after(2 + below(20), signal);
            return JSON.parse(withNewFields(JSON.stringify((await run()) ?? {})));
          case "admitSlowly":
            await clock.after(below(fault.ms), signal);
            break;
          case undefined:
            break;
          default:
            fault satisfies never;
        }
      }
      await clock.after(2 + below(20), signal);
      const answer = run();
      await ended(answer);
      await clock.after(1 + below(10), signal);
      return await answer;
    },
  };

  const kube = kubeOver(client);
  /** Simulates an older API server, or an etcd that cannot report progress: lists are paged. */
  const streamsLists = random.next() < 0.5;
  return { ...kube, listPage };

  async function listPage(...[resource, query, signal]: Parameters<Kube["listPage"]>): ReturnType<Kube["listPage"]> {
    if (chance(faults().watch * 2)) {
      const code = [410, 500, 429, 504][below(4)] ?? 500;
      options.observer?.fault?.("list refused");
      if (code === 410 && query.continue === undefined) throw new UnansweredError("simulated: connection refused");
      throw new KubeApiError({ code, ...(code === 504 && { message: "Timeout: Too large resource version: simulated" }) });
    }
    const isStale = query.resourceVersionMatch === "NotOlderThan" && query.resourceVersion !== "0" && options.lags?.() === true;
    if (isStale) options.observer?.fault?.("stale lists");
    const asked = isStale ? { ...query, resourceVersionMatch: "Exact" as const } : query;
    const page = await kube.listPage(resource, { ...asked, limit: pageSize }, signal);
    if (chance(faults().watch)) await clock.after(below(4_000), signal);
    return page;
  }

  async function* lines(call: Parameters<KubeClient["lines"]>[0]): AsyncGenerator<readonly WatchFrame[]> {
    const { signal, query } = call;
    if (query?.["sendInitialEvents"] === true && !streamsLists) throw new KubeApiError({ code: 422, reason: "Invalid" });
    if (chance(faults().watch)) {
      options.observer?.fault?.("stream: refused");
      throw new UnansweredError("simulated: connection refused");
    }
    await options.outages?.call(signal);
    await clock.after(2 + below(20), signal);
    const stream = options.outages ? { ...call, signal: AbortSignal.any([signal, options.outages.cut]) } : call;
    for await (const arrived of faultless.lines(stream)) {
      let lines = arrived;
      await clock.after(1 + below(15), signal);
      if (chance(faults().watch)) {
        const fault = ["close", "break", "garble", "expire", "refuse", "fail", "slow", "silent", "newer"][below(9)];
        options.observer?.fault?.(`stream: ${fault}`);
        if (fault === "close") return void (yield lines);
        if (fault === "break") {
          lines = lines.slice(0, below(lines.length + 1));
          if (lines.length > 0) yield lines;
          throw new UnansweredError("simulated: connection reset");
        }
        if (fault === "garble") lines = lines.map((line, i) => (i === lines.length - 1 ? lineOf(line).slice(0, -2 - below(20)) : line));
        if (fault === "newer") lines = lines.map((line) => eventWithNewFields(lineOf(line)));
        if (fault === "expire") lines = [errorLine(410, "Expired")];
        if (fault === "refuse") lines = [errorLine(429, "TooManyRequests")];
        if (fault === "fail") lines = [errorLine(500, "InternalError")];
        if (fault === "slow") await clock.after(below(5_000), signal);
        if (fault === "silent") {
          await clock.after(INACTIVITY_MS, signal);
          throw new UnansweredError("simulated: no data for 100 s");
        }
      }
      yield lines;
    }
  }
}

function errorLine(code: number, reason: string): string {
  return JSON.stringify({
    type: "ERROR",
    object: { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", code, reason, message: "simulated" },
  });
}

/** Resolves once the request is executed, whatever its response. */
async function ended(answer: Promise<unknown>): Promise<void> {
  await answer.catch(() => undefined);
}
