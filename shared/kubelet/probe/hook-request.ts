/** What running a lifecycle hook asks (node-agent §6.10). */
import type { V1LifecycleHandler } from "@kubernetes/client-node";
import type { Wire } from "../../api/wire.ts";
import type { HttpProbe } from "../../ports/prober.ts";
import { httpGetRequest, resolvePort } from "./http-get.ts";
import type { ContainerSpec } from "../pod.ts";

export type LifecycleHandler = Wire<V1LifecycleHandler>;

/** Of a hook whose port is an empty string. */
const DEFAULT_PORT = 80;

export type HookRequest =
  /** Without a time limit of its own. */
  | { readonly kind: "exec"; readonly command: readonly string[] }
  | { readonly kind: "http"; readonly request: HttpProbe }
  | { readonly kind: "sleep"; readonly seconds: number }
  /** Cannot be run: the hook has failed, for this reason. */
  | { readonly kind: "invalid"; readonly message: string };

export interface HookTarget {
  readonly container: ContainerSpec;
  /** Empty: none yet. */
  readonly podIp: string;
  /** Of an HTTP request: what is left of the grace, or whatever bounds a postStart hook. */
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
  if (port === undefined) return { kind: "invalid", message: `invalid port ${action.port} of container ${container.name}` };
  const request = httpGetRequest({ action, host, port, purpose: "lifecycle", timeoutMs });
  return { kind: "http", request: { ...request, fallBackToHttp: true, anyStatus: true } };
}
