/** What running a probe asks of Cri or Prober (node-agent §11). */
import type { GrpcProbe, HttpProbe } from "../../ports/prober.ts";
import { expand } from "../kuberuntime/expansion.ts";
import { httpGetRequest, resolvePort, userAgent } from "./http-get.ts";
import type { ContainerSpec, ProbeSpec } from "../pod.ts";

/** Source: pkg/apis/core/v1/defaults.go SetDefaults_Probe. */
const TIMEOUT_SECONDS = 1;

export type ProbeRequest =
  | { readonly kind: "exec"; readonly command: readonly string[]; readonly timeoutSeconds: number }
  | { readonly kind: "http"; readonly request: HttpProbe }
  | { readonly kind: "tcp"; readonly host: string; readonly port: number; readonly timeoutMs: number }
  | { readonly kind: "grpc"; readonly request: GrpcProbe }
  /** Cannot be run: its outcome is `error` with this text. */
  | { readonly kind: "invalid"; readonly message: string };

/**
 * Source: pkg/kubelet/prober/prober.go runProbe.
 *
 * Differs from upstream: without any host the probe is invalid, where Go dials the node itself.
 */
export function probeRequest(spec: ProbeSpec, container: ContainerSpec, podIp: string): ProbeRequest {
  const timeoutSeconds = spec.timeoutSeconds || TIMEOUT_SECONDS;
  const timeoutMs = timeoutSeconds * 1000;
  if (spec.exec) return { kind: "exec", command: expandedCommand(spec.exec.command ?? [], container), timeoutSeconds };
  const handler = spec.httpGet ?? spec.tcpSocket ?? spec.grpc;
  if (handler === undefined) return { kind: "invalid", message: `missing probe handler for ${container.name}` };
  const port = resolvePort(handler.port, container);
  if (port === undefined) return { kind: "invalid", message: `invalid port ${handler.port} of container ${container.name}` };
  const host = ("host" in handler && handler.host) || podIp;
  if (host === "") return { kind: "invalid", message: "the pod has no IP" };
  if (spec.httpGet) return { kind: "http", request: httpGetRequest({ action: spec.httpGet, host, port, purpose: "probe", timeoutMs }) };
  if (spec.tcpSocket) return { kind: "tcp", host, port, timeoutMs };
  return { kind: "grpc", request: { host, port, service: spec.grpc?.service ?? "", userAgent: userAgent("probe"), timeoutMs } };
}

/** `$(NAME)` from the values that the spec itself holds. Source: pkg/kubelet/container/helpers.go ExpandContainerCommandOnlyStatic. */
function expandedCommand(command: readonly string[], { env }: ContainerSpec): readonly string[] {
  const values = new Map(env?.map(({ name, value }) => [name, value ?? ""]));
  return command.map((argument) => expand(argument, (name) => values.get(name)));
}
