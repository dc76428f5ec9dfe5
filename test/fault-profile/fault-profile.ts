/**
 * API faults as data: which requests, how often, and which fault instead of the plain response. The injector only counts
 * requests; server.ts applies faults to HTTP, test/simulation/kube.ts to calls in one process.
 *
 * MA1 the same requests in the same order meet the same faults: rules go by count, or by a seed.
 * MA2 every rule counts all requests that it is about, also those that an earlier rule in the list strikes.
 * MA3 one fault a request: the first rule of the list that strikes. New fields come on top of it.
 */
import type { Random } from "../../shared/base/random.ts";
import type { Refusal } from "./refusals.ts";

/** `cutWatch` and `stallWatch` strike pieces of a watch's stream (whole lines, as they came), `addFields` both, all others requests. */
export type Fault =
  /** Answers at once and passes nothing on. */
  | { readonly kind: "refuse"; readonly with: Refusal }
  /** The request is passed on after `ms`, or, when its own `timeout` is over before, never: then it is answered 504. */
  | { readonly kind: "admitSlowly"; readonly ms: number }
  /** Passes nothing on and breaks the connection. */
  | { readonly kind: "loseRequest" }
  /** The request is executed, and the connection breaks instead of an answer. */
  | { readonly kind: "loseAnswer" }
  /** Done, and the connection breaks in the middle of the answer's body. */
  | { readonly kind: "cutAnswer" }
  /** Done, and refused all the same, as by a server that loses its etcd in between. */
  | { readonly kind: "refuseAfter"; readonly with: Refusal }
  /** Never answered; what was asked for is done first, or never: whoever asked is to die of it. */
  | { readonly kind: "standStill"; readonly isDone: boolean }
  /** Each object of the answer, also in lists and watches, has fields that no client knows. */
  | { readonly kind: "addFields" }
  /** Half of the piece is passed on, then the connection breaks. */
  | { readonly kind: "cutWatch" }
  /** Nothing is passed on for `ms`; the connection stays open. */
  | { readonly kind: "stallWatch"; readonly ms: number };

export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "deletecollection";

export const WRITES: readonly Verb[] = ["create", "update", "patch", "delete"];

/** The requests that a rule matches; an absent field matches everything. */
export interface About {
  readonly verbs?: readonly Verb[];
  /** `pods`, or with the subresource `replicasets/status`. */
  readonly resource?: string;
  readonly namespace?: string;
  /** How the User-Agent begins. */
  readonly client?: string;
}

/**
 * Which of its matching requests a rule applies to: of `{ every: 3 }` the third, the sixth, …; of `{ first: 2 }` two; of `{ nth: 2 }` the
 * second.
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

/** A request as rules see it. */
export interface Asked {
  readonly verb: Verb;
  /** `pods`, `deployments/scale`; empty for what is no resource. */
  readonly resource: string;
  /** Empty for cluster scope and for all namespaces. */
  readonly namespace: string;
  readonly name: string;
  readonly client: string;
}

export interface FaultInjector {
  /** Adds rules behind those there are. @returns how to end them */
  add(...rules: readonly FaultRule[]): () => void;
  meets(asked: Asked): Met;
  /** The fault of the next chunk of a watch's stream. */
  meetsPiece(asked: Asked): Met;
}

export interface Met {
  /** Never one that adds fields. */
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

/** `count`: of this request among those that the rule is about, from 1. */
function strikes(often: Often, count: number): boolean {
  if (often === "always") return true;
  if ("every" in often) return count % often.every === 0;
  if ("first" in often) return count <= often.first;
  if ("nth" in often) return count === often.nth;
  return often.random.next() < often.share;
}

/** `POST /apis/apps/v1/namespaces/shop/replicasets` in its parts. Source: apiserver pkg/endpoints/request/requestinfo.go. */
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
