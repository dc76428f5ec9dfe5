/**
 * API faults as data: which requests they apply to, how often, and the fault that replaces the normal response. The injector only counts
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
  /** Forwards the request after `ms`; if the request's own `timeout` is shorter, responds with 504 instead. */
  | { readonly kind: "admitSlowly"; readonly ms: number }
  /** Closes the connection without forwarding the request. */
  | { readonly kind: "loseRequest" }
  /** Executes the request and closes the connection before the response. */
  | { readonly kind: "loseAnswer" }
  /** Executes the request and closes the connection in the middle of the response's body. */
  | { readonly kind: "cutAnswer" }
  /** Executes the request and rejects it nevertheless, as a server does that loses its connection to etcd in between. */
  | { readonly kind: "refuseAfter"; readonly with: Refusal }
  /** Never responds; with `isDone`, executes the request first. The client is killed meanwhile. */
  | { readonly kind: "standStill"; readonly isDone: boolean }
  /** Adds unknown fields to each object of the response, also in lists and watches. */
  | { readonly kind: "addFields" }
  /** Forwards half of the chunk, then closes the connection. */
  | { readonly kind: "cutWatch" }
  /** Forwards nothing for `ms`; the connection stays open. */
  | { readonly kind: "stallWatch"; readonly ms: number };

export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "deletecollection";

export const WRITES: readonly Verb[] = ["create", "update", "patch", "delete"];

/** The requests to which a rule applies; an absent field matches all requests. */
export interface About {
  readonly verbs?: readonly Verb[];
  /** `pods`, or with the subresource `replicasets/status`. */
  readonly resource?: string;
  readonly namespace?: string;
  /** Prefix of the User-Agent. */
  readonly client?: string;
}

/**
 * Selects among the requests that a rule matches: `{ every: 3 }` the third, the sixth, …; `{ first: 2 }` the first two; `{ nth: 2 }` the
 * second one.
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

/** The attributes of a request by which rules select it. */
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
  /** Returns the fault for the next chunk of a watch's stream. */
  meetsPiece(asked: Asked): Met;
}

export interface Met {
  /** The rule that applies; never one with `addFields`. */
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

/** `count` is the position of this request among those that the rule matches, starting at 1. */
function strikes(often: Often, count: number): boolean {
  if (often === "always") return true;
  if ("every" in often) return count % often.every === 0;
  if ("first" in often) return count <= often.first;
  if ("nth" in often) return count === often.nth;
  return often.random.next() < often.share;
}

/**
 * Parses the method and URL of a request such as `POST /apis/apps/v1/namespaces/shop/replicasets`. Source: apiserver
 * pkg/endpoints/request/requestinfo.go.
 */
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
