/** Builds the requests and Events of probes and lifecycle hooks (node-agent §6.10, §9, §11). */
import type { GrpcProbe, HttpProbe, ProbeOutcome } from "../../ports/prober.ts";
import { expand } from "../types/expand.ts";
import type { ContainerSpec, ProbeSpec } from "../types/pod.ts";
import type { ExecSyncResponse } from "../../ports/cri-types.ts";
import type { ProbeKind } from "../../ports/node-store.ts";
import type { V1HTTPGetAction } from "@kubernetes/client-node";
import { KUBERNETES_MAJOR, KUBERNETES_MINOR, type Wire } from "@deltaloop/kube/objects";

/** Source: pkg/apis/core/v1/defaults.go SetDefaults_Probe. */
const TIMEOUT_SECONDS = 1;

export type ProbeRequest =
  | { readonly kind: "exec"; readonly command: readonly string[]; readonly timeoutSeconds: number }
  | { readonly kind: "http"; readonly request: HttpProbe }
  | { readonly kind: "tcp"; readonly host: string; readonly port: number; readonly timeoutMs: number }
  | { readonly kind: "grpc"; readonly request: GrpcProbe }
  /** The probe is not run; its outcome is `error` with this message. */
  | { readonly kind: "invalid"; readonly message: string };

/**
 * Builds the request of a probe. Source: pkg/kubelet/prober/prober.go runProbe. Differs from upstream: without a host the probe is
 * invalid; Go dials the node itself.
 */
export function probeRequest(spec: ProbeSpec, container: ContainerSpec, podIp: string): ProbeRequest {
  const timeoutSeconds = spec.timeoutSeconds || TIMEOUT_SECONDS;
  const timeoutMs = timeoutSeconds * 1000;
  if (spec.exec) return { kind: "exec", command: expandedCommand(spec.exec.command ?? [], container), timeoutSeconds };
  const handler = spec.httpGet ?? spec.tcpSocket ?? spec.grpc;
  if (handler === undefined) return { kind: "invalid", message: `missing probe handler for ${container.name}` };
  const port = resolvePort(handler.port, container);
  if (port === undefined) return { kind: "invalid", message: portProblem(handler.port) };
  const host = ("host" in handler && handler.host) || podIp;
  if (host === "") return { kind: "invalid", message: "the pod has no IP" };
  if (spec.httpGet) return { kind: "http", request: httpGetRequest({ action: spec.httpGet, host, port, purpose: "probe", timeoutMs }) };
  if (spec.tcpSocket) return { kind: "tcp", host, port, timeoutMs };
  return { kind: "grpc", request: { host, port, service: spec.grpc?.service ?? "", userAgent: userAgent("probe"), timeoutMs } };
}

/**
 * Expands `$(NAME)` with the variables whose values are literal in the spec. Source: pkg/kubelet/container/helpers.go
 * ExpandContainerCommandOnlyStatic.
 */
function expandedCommand(command: readonly string[], { env }: ContainerSpec): readonly string[] {
  const values = new Map(env?.map(({ name, value }) => [name, value ?? ""]));
  return command.map((argument) => expand(argument, (name) => values.get(name)));
}

/** Source: pkg/probe/exec/exec.go maxReadLength. */
const OUTPUT_BYTES_MAX = 10 * 1024;
const encoder = new TextEncoder();

/** Maximum number of attempts to execute a probe that cannot be run. Source: prober.go maxProbeRetries. */
export const PROBE_TRIES_MAX = 3;

const TITLES: { readonly [K in ProbeKind]: string } = { readiness: "Readiness", liveness: "Liveness", startup: "Startup" };

/**
 * Returns the outcome of a command that has ended. A timeout is a Failure; a command that cannot run is an error. Source:
 * pkg/probe/exec/exec.go.
 */
export function execOutcome({ exitCode, stdout, stderr }: ExecSyncResponse): ProbeOutcome {
  return { result: exitCode === 0 ? "Success" : "Failure", output: outputOf(stdout, stderr) };
}

/** Returns at most 10 KiB, in whole characters. Copies the text, because a substring would keep the whole output in memory. */
function outputOf(...texts: readonly string[]): string {
  const bytes = Buffer.alloc(OUTPUT_BYTES_MAX);
  const { written } = encoder.encodeInto(texts.map((text) => text.slice(0, OUTPUT_BYTES_MAX)).join(""), bytes);
  return bytes.toString("utf8", 0, written);
}

export interface ProbeNote {
  readonly type: "Warning";
  readonly reason: "Unhealthy" | "ProbeWarning";
  readonly message: string;
}

/** Returns the Event for an outcome, independent of thresholds; undefined for a success without a warning. Source: prober.go probe. */
export function probeNote(kind: ProbeKind, { result, output, warning }: ProbeOutcome): ProbeNote | undefined {
  const title = TITLES[kind];
  switch (result) {
    case "Failure":
      return { type: "Warning", reason: "Unhealthy", message: `${title} probe failed: ${output}` };
    case "error":
      return { type: "Warning", reason: "Unhealthy", message: `${title} probe errored and resulted in unknown state: ${output}` };
    case "Success":
      return warning && { type: "Warning", reason: "ProbeWarning", message: `${title} probe warning: ${output}` };
    default:
      return result satisfies never;
  }
}

type HttpGetAction = Wire<V1HTTPGetAction>;
type Header = HttpProbe["headers"][number];

const PORT_MAX = 65_535;

export interface HttpGetInput {
  readonly action: HttpGetAction;
  readonly port: number;
  readonly host: string;
  /** Part of the User-Agent after `kube-`. */
  readonly purpose: "probe" | "lifecycle";
  readonly timeoutMs: number;
}

/** Source: pkg/probe/http/request.go NewRequestForHTTPGetAction. */
export function httpGetRequest({ action, port, host, purpose, timeoutMs }: HttpGetInput): HttpProbe {
  return {
    scheme: action.scheme?.toUpperCase() === "HTTPS" ? "HTTPS" : "HTTP",
    host,
    port,
    path: action.path ?? "",
    headers: withDefaults(action.httpHeaders ?? [], purpose),
    timeoutMs,
  };
}

/** Resolves a port number or a port name, which may consist of digits. Source: pkg/probe/util.go ResolveContainerPort. */
export function resolvePort(port: number | string, container: ContainerSpec): number | undefined {
  const named = container.ports?.find(({ name }) => name !== undefined && name === port)?.containerPort;
  const number = named ?? (typeof port === "number" ? port : undefined);
  return number !== undefined && number > 0 && number <= PORT_MAX ? number : undefined;
}

export function portProblem(port: number | string): string {
  return typeof port === "string" ? `port "${port}" not found` : `invalid port number: ${port}`;
}

/** `kube-probe/1.37`. */
function userAgent(purpose: HttpGetInput["purpose"]): string {
  return `kube-${purpose}/${KUBERNETES_MAJOR}.${KUBERNETES_MINOR}`;
}

/**
 * Adds User-Agent and Accept unless the spec sets them; a header with an empty value is removed. Source: pkg/probe/http/request.go
 * newProbeRequest.
 */
function withDefaults(own: readonly Header[], purpose: HttpGetInput["purpose"]): readonly Header[] {
  const defaults = [
    { name: "User-Agent", value: userAgent(purpose) },
    { name: "Accept", value: "*/*" },
  ];
  const isSet = (header: Header): boolean => own.some(({ name }) => isSame(name, header.name));
  const isRemoved = ({ name, value }: Header): boolean => value === "" && defaults.some((header) => isSame(name, header.name));
  return [...defaults.filter((header) => !isSet(header)), ...own.filter((header) => !isRemoved(header))];
}

function isSame(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}
