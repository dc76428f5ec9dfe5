/** What probes and hooks ask of a container over the network (node-agent §6.10, §11): hosts, ports and headers. */
import type { V1HTTPGetAction } from "@kubernetes/client-node";
import type { Wire } from "../../api/wire.ts";
import type { HttpProbe } from "../../ports/prober.ts";
import { KUBELET_VERSION } from "../node-options.ts";
import type { ContainerSpec } from "../pod.ts";

type HttpGetAction = Wire<V1HTTPGetAction>;
type Header = HttpProbe["headers"][number];

const PORT_MAX = 65_535;

export interface HttpGetInput {
  readonly action: HttpGetAction;
  readonly port: number;
  readonly host: string;
  /** What the User-Agent says after `kube-`. */
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

/** A number, or the name of one of the container's ports, or a number in a string; else undefined. Source: pkg/probe/util.go. */
export function resolvePort(port: number | string, container: ContainerSpec): number | undefined {
  const named = container.ports?.find(({ name }) => name !== undefined && name === port)?.containerPort;
  const number = named ?? (typeof port === "number" || /^\d+$/u.test(port) ? Number(port) : undefined);
  return number !== undefined && number > 0 && number <= PORT_MAX ? number : undefined;
}

/** `kube-probe/1.36`. */
export function userAgent(purpose: HttpGetInput["purpose"]): string {
  const [major, minor] = KUBELET_VERSION.slice(1).split(".");
  return `kube-${purpose}/${major}.${minor}`;
}

/**
 * User-Agent and Accept, unless the spec has its own; an own one that is empty removes it.
 *
 * Source: pkg/probe/http/request.go newProbeRequest.
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
