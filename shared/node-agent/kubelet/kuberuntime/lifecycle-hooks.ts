/** Lifecycle hooks (node-agent §6.10). The output of a hook never leaves this module, because it may contain secrets. */
import type { ContainerSpec } from "../types/pod.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { V1LifecycleHandler } from "@kubernetes/client-node";
import type { Wire } from "@deltaloop/kube/objects";
import type { HttpProbe } from "../../ports/prober.ts";
import { httpGetRequest, portProblem, resolvePort } from "../prober/probe-request.ts";

/** Maximum duration of an HTTP hook; upstream limits it only by the pod's end. */
const HTTP_TIMEOUT_MS = 60_000;

/** A lifecycle hook failed. The message names the kind of failure and contains no output. */
export class HookError extends Error {
  override readonly name = "HookError";
}

export interface HookCall {
  readonly handler: LifecycleHandler;
  readonly container: ContainerSpec;
  readonly containerId: string;
  readonly podIp: string;
  /** The maximum duration. For a preStop hook, it is the rest of the grace period. */
  readonly timeoutMs?: number;
  /** Aborts when no caller waits for the hook any more. */
  readonly signal: AbortSignal;
}

/** Runs the hook. @throws {HookError}, or the signal's reason */
export async function runHook(ports: Pick<NodePorts, "cri" | "prober" | "clock">, call: HookCall): Promise<void> {
  const { handler, container, containerId, podIp, timeoutMs, signal } = call;
  const request = hookRequest(handler, { container, podIp, timeoutMs: timeoutMs ?? HTTP_TIMEOUT_MS });
  switch (request.kind) {
    case "exec": {
      const timeoutSeconds = timeoutMs === undefined ? 0 : Math.max(1, Math.ceil(timeoutMs / 1000));
      const { exitCode } = await ports.cri.execSync(containerId, request.command, timeoutSeconds, { signal }).catch((error: unknown) => {
        signal.throwIfAborted();
        throw new HookError("the command could not run or timed out", { cause: error });
      });
      if (exitCode !== 0) throw new HookError(`the command exited with code ${exitCode}`);
      return;
    }
    case "http": {
      const { result } = await ports.prober.httpGet(request.request, signal);
      signal.throwIfAborted();
      if (result !== "Success") throw new HookError("the HTTP request failed");
      return;
    }
    case "sleep":
      return await ports.clock.after(Math.min(request.seconds * 1000, timeoutMs ?? Infinity), signal);
    case "invalid":
      throw new HookError(request.message);
    default:
      throw new Error(`unknown request ${JSON.stringify(request satisfies never)}`);
  }
}

export type LifecycleHandler = Wire<V1LifecycleHandler>;

/** Port that is used if the spec's port is an empty string. */
const DEFAULT_PORT = 80;

export type HookRequest =
  /** A command has no separate timeout. */
  | { readonly kind: "exec"; readonly command: readonly string[] }
  | { readonly kind: "http"; readonly request: HttpProbe }
  | { readonly kind: "sleep"; readonly seconds: number }
  /** The hook fails with this message without being run. */
  | { readonly kind: "invalid"; readonly message: string };

export interface HookTarget {
  readonly container: ContainerSpec;
  /** Empty if the pod has no IP yet. */
  readonly podIp: string;
  /** Timeout of an HTTP request: the rest of the grace period for a preStop hook, or the limit of a postStart hook. */
  readonly timeoutMs: number;
}

/** Source: pkg/kubelet/lifecycle/handlers.go Run, runHTTPHandler. */
export function hookRequest(handler: LifecycleHandler, { container, podIp, timeoutMs }: HookTarget): HookRequest {
  if (handler.exec) return { kind: "exec", command: handler.exec.command ?? [] };
  if (handler.sleep) return { kind: "sleep", seconds: handler.sleep.seconds };
  const action = handler.httpGet;
  if (action === undefined) return { kind: "invalid", message: "invalid handler" };
  const host = action.host || podIp;
  if (host === "") return { kind: "invalid", message: "failed to find networking container: the pod has no IP" };
  const port = action.port === "" ? DEFAULT_PORT : resolvePort(action.port, container);
  if (port === undefined) return { kind: "invalid", message: portProblem(action.port) };
  const request = httpGetRequest({ action, host, port, purpose: "lifecycle", timeoutMs });
  return { kind: "http", request: { ...request, fallBackToHttp: true, anyStatus: true } };
}
