/**
 * Paths of the agent's API (node-agent §15).
 *
 * Source: pkg/kubelet/server/server.go InstallAuthNotRequiredHandlers, InstallAuthRequiredHandlers.
 */

export interface PodPath {
  readonly namespace: string;
  readonly pod: string;
  /** The pod's uid, if the path contains one. */
  readonly uid?: string;
}

export interface ContainerPath extends PodPath {
  readonly container: string;
}

export type Route =
  | ({ readonly kind: "containerLogs" } & ContainerPath)
  | ({ readonly kind: "exec" | "attach" | "run" } & ContainerPath)
  | ({ readonly kind: "portForward" } & PodPath)
  /** If `check` is absent, all checks run. */
  | { readonly kind: "healthz"; readonly check?: string }
  | { readonly kind: "pods" | "runningPods" | "configz" | "summary" | "metrics" | "resourceMetrics" }
  | { readonly kind: "refused"; readonly code: 400 | 404 | 405; readonly text: string };

export function routeOf(method: string, path: string): Route {
  // The path must not be decoded first, because authorization also reads the raw path (HS2).
  const [first, ...encoded] = path.slice(1).split("/");
  const rest = decoded(encoded);
  if (rest === undefined) return { kind: "refused", code: 400, text: "Bad Request" };
  switch (first) {
    case "containerLogs":
      return withMethod(method, ["GET"], containerPath(rest, { uid: false }, "containerLogs"));
    case "exec":
    case "attach":
      return withMethod(method, ["GET", "POST"], containerPath(rest, { uid: true }, first));
    case "run":
      return withMethod(method, ["POST"], containerPath(rest, { uid: true }, "run"));
    case "portForward":
      return withMethod(method, ["GET", "POST"], podPath(rest));
    case "healthz":
      if (rest.length > 1) return NOT_FOUND;
      return withMethod(method, ["GET"], { kind: "healthz", ...(rest[0] !== undefined && { check: rest[0] }) });
    case "pods":
      return rest.length === 0 ? withMethod(method, ["GET"], { kind: "pods" }) : NOT_FOUND;
    case "runningpods":
      return rest.join("") === "" && rest.length <= 1 ? withMethod(method, ["GET"], { kind: "runningPods" }) : NOT_FOUND;
    case "configz":
      return rest.length === 0 ? withMethod(method, ["GET"], { kind: "configz" }) : NOT_FOUND;
    case "stats":
      return rest.length === 1 && rest[0] === "summary" ? withMethod(method, ["GET", "POST"], { kind: "summary" }) : NOT_FOUND;
    case "metrics":
      if (rest.length === 0) return withMethod(method, ["GET"], { kind: "metrics" });
      return rest.length === 1 && rest[0] === "resource" ? withMethod(method, ["GET"], { kind: "resourceMetrics" }) : NOT_FOUND;
    default:
      return NOT_FOUND;
  }
}

const NOT_FOUND = { kind: "refused", code: 404, text: "404 page not found\n" } as const;

function withMethod(method: string, allowed: readonly string[], route: Route): Route {
  if (route.kind === "refused" || allowed.includes(method)) return route;
  return { kind: "refused", code: 405, text: "405: Method Not Allowed" };
}

type ContainerKind = "containerLogs" | "exec" | "attach" | "run";

/** Parses `{ns}/{pod}[/{uid}]`; no segment may be empty. */
function podPath(parts: readonly string[]): Route {
  const [namespace = "", pod = "", uid] = parts;
  if (parts.includes("") || parts.length < 2 || parts.length > 3) return NOT_FOUND;
  return { kind: "portForward", namespace, pod, ...(uid !== undefined && { uid }) };
}

/** Parses `{ns}/{pod}[/{uid}]/{container}`; no segment may be empty. */
function containerPath(parts: readonly string[], has: { readonly uid: boolean }, kind: ContainerKind): Route {
  const [namespace = "", pod = "", third = "", fourth] = parts;
  if (parts.includes("") || parts.length < 3 || parts.length > (has.uid ? 4 : 3)) return NOT_FOUND;
  return fourth === undefined ? { kind, namespace, pod, container: third } : { kind, namespace, pod, uid: third, container: fourth };
}

/** Returns `undefined` for invalid percent-encoding. */
function decoded(parts: readonly string[]): readonly string[] | undefined {
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return undefined;
  }
}
