/**
 * API faults as data: which requests, how often, and which fault in place of the normal response. The injector only counts
 * requests; server.ts applies faults to HTTP, test/simulation/kube.ts to calls in one process.
 *
 * MA1 the same requests in the same order meet the same faults: rules depend on counts, or on a seed.
 * MA2 every rule counts all requests that it matches, including those that an earlier rule in the list applies to.
 * MA3 one fault per request: the first rule of the list that applies. `addFields` is combined with it.
 */
import type { Random } from "../../shared/base/random.ts";
import type { Refusal } from "./refusals.ts";

/**
 * `cutWatch` and `stallWatch` apply to chunks of a watch's stream (whole lines, as received), `addFields` to chunks and requests, all
 * others to requests.
 */
export type Fault =
  /** Responds immediately without forwarding the request. */
  | { readonly kind: "refuse"; readonly with: Refusal }
  /** The request is passed on after `ms`; if its own `timeout` is shorter, it is not passed on and answered with 504. */
  | { readonly kind: "admitSlowly"; readonly ms: number }
  /** The request is not passed on, and the connection breaks. */
  | { readonly kind: "loseRequest" }
  /** The request is executed, and the connection breaks before the response. */
  | { readonly kind: "loseAnswer" }
  /** The request is executed, and the connection breaks in the middle of the response's body. */
  | { readonly kind: "cutAnswer" }
  /** The request is executed and still rejected, as by a server that loses its etcd in between. */
  | { readonly kind: "refuseAfter"; readonly with: Refusal }
  /** The request is never answered; `isDone`: it is executed first. The client is killed meanwhile. */
  | { readonly kind: "standStill"; readonly isDone: boolean }
  /** Each object of the response, also in lists and watches, gets fields that no client knows. */
  | { readonly kind: "addFields" }
  /** Half of the chunk is passed on, then the connection breaks. */
  | { readonly kind: "cutWatch" }
  /** Nothing is passed on for `ms`; the connection stays open. */
  | { readonly kind: "stallWatch"; readonly ms: number };

export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "deletecollection";

export const WRITES: readonly Verb[] = ["create", "update", "patch", "delete"];

/** `pods`, or with the subresource `replicasets/status`. */
export interface About {
  readonly verbs?: readonly Verb[];
  /** `pods`, or with the subresource `replicasets/status`. */
  readonly resource?: string;
  readonly namespace?: string;
  /** Prefix of the User-Agent. */
  readonly client?: string;
}

/**
 * Which of its matching requests a rule applies to: `{ every: 3 }` to the third, the sixth, …; `{ first: 2 }` to the first two; `{ nth: 2
 * }` to the second.
 */
export type Often =
  | "always"
  | { readonly every: number }
  | { readonly first: number }
  | { readonly nth: number }
  | { readonly share: number; readonly random: Random };

export interface FaultRule {
  readonly name: string;
  readonly about: About;
  readonly often: Often;
  readonly fault: Fault;
}

/** `pods`, `deployments/scale`; empty for paths that are not resources. */
export interface Asked {
  readonly verb: Verb;
  /** `pods`, `deployments/scale`; empty for paths that are not resources. */
  readonly resource: string;
  /** Empty for cluster scope and for all namespaces. */
  readonly namespace: string;
  readonly name: string;
  readonly client: string;
}

export interface FaultInjector {
  /** Appends rules. @returns a function that removes them */
  add(...rules: readonly FaultRule[]): () => void;
  meets(asked: Asked): Met;
  /** The fault of the next chunk of a watch's stream. */
  meetsPiece(asked: Asked): Met;
}

export interface Met {
  /** Never a rule with `addFields`. */
  readonly rule?: FaultRule;
  readonly addsFields: boolean;
}

export function createFaultInjector(rules: readonly FaultRule[] = []): FaultInjector {
  let all: readonly { readonly rule: FaultRule; count: number }[] = [];
  const add: FaultInjector["add"] = (...more) => {
    const added = more.map((rule) => ({ rule, count: 0 }));
    all = [...all, ...added];
    return () => (all = all.filter((one) => !added.includes(one)));
  };
  const meet = (asked: Asked, ofPieces: boolean): Met => {
    const struck = all
      .filter(({ rule }) => strikesPieces(rule.fault) === ofPieces || rule.fault.kind === "addFields")
      .filter(({ rule }) => isAbout(rule.about, asked))
      .filter((one) => strikes(one.rule.often, ++one.count))
      .map(({ rule }) => rule);
    const rule = struck.find(({ fault }) => fault.kind !== "addFields");
    return { addsFields: struck.some(({ fault }) => fault.kind === "addFields"), ...(rule && { rule }) };
  };
  add(...rules);
  return { add, meets: (asked) => meet(asked, false), meetsPiece: (asked) => meet(asked, true) };
}

function strikesPieces({ kind }: Fault): boolean {
  return kind === "cutWatch" || kind === "stallWatch";
}

function isAbout({ verbs, resource, namespace, client }: About, asked: Asked): boolean {
  return (
    (verbs === undefined || verbs.includes(asked.verb)) &&
    (resource === undefined || resource === asked.resource) &&
    (namespace === undefined || namespace === asked.namespace) &&
    (client === undefined || asked.client.startsWith(client))
  );
}

/** `count`: the position of this request among those that the rule matches, from 1. */
function strikes(often: Often, count: number): boolean {
  if (often === "always") return true;
  if ("every" in often) return count % often.every === 0;
  if ("first" in often) return count <= often.first;
  if ("nth" in often) return count === often.nth;
  return often.random.next() < often.share;
}

/** The parts of `POST /apis/apps/v1/namespaces/shop/replicasets`. Source: apiserver pkg/endpoints/request/requestinfo.go. */
export function askedOf(method: string, url: string, client = ""): Asked {
  const { pathname, searchParams } = new URL(url, "http://localhost");
  const [root, ...rest] = pathname.split("/").slice(1).map(decodeURIComponent);
  const parts = root === "api" ? rest.slice(1) : root === "apis" ? rest.slice(2) : [];
  const isInside = parts[0] === "namespaces" && parts[2] !== undefined && !NAMESPACE_SUBRESOURCES.includes(parts[2]);
  const namespace = isInside ? (parts[1] ?? "") : "";
  const [resource = "", name = "", subresource] = isInside ? parts.slice(2) : parts;
  const isWatch = ["true", "1"].includes(searchParams.get("watch") ?? "");
  return {
    verb: verbOf(method, name, isWatch),
    resource: subresource === undefined ? resource : `${resource}/${subresource}`,
    namespace,
    name,
    client,
  };
}

const NAMESPACE_SUBRESOURCES = ["status", "finalize"];

function verbOf(method: string, name: string, isWatch: boolean): Verb {
  switch (method) {
    case "POST":
      return "create";
    case "PUT":
      return "update";
    case "PATCH":
      return "patch";
    case "DELETE":
      return name === "" ? "deletecollection" : "delete";
    default:
      return isWatch ? "watch" : name === "" ? "list" : "get";
  }
}
