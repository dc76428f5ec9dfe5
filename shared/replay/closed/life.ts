/** Collects the data that a closed-loop replay needs from a recorded cluster, change by change. */
import { controllerRef } from "@deltaloop/kube/objects";
import { CaptureError } from "../capture-format/capture.ts";
import { placeOf } from "../shadow/states.ts";
import type { Change, LiveObject } from "../shadow/states.ts";
import { UserRequestCollector } from "./user-requests.ts";
import type { UserRequests } from "./user-requests.ts";

export interface Life {
  readonly startMs: number;
  readonly endMs: number;
  readonly namespaces: ReadonlySet<string>;
  /** The initial objects. */
  readonly standing: readonly Pick<Change, "resource" | "object">[];
  readonly userRequests: UserRequests;
  /** The final objects. */
  readonly recorded: readonly LiveObject[];
  /** Pod templates (templateOf) whose recorded pods never became ready. Their pods do not become ready in the replay either. */
  readonly never: ReadonlySet<string>;
}

/** Limit of user requests, each of which holds a whole object. */
const USER_REQUESTS_MAX = 50_000;

export class SeenLife {
  readonly #name: string;
  readonly #userRequests = new UserRequestCollector();
  readonly #namespaces = new Set<string>();
  readonly #standing = new Map<string, Pick<Change, "resource" | "object">>();
  readonly #kinds = new Map<string, boolean>();
  #startMs = Infinity;
  #endMs = -Infinity;

  /** @param name the file name for messages */
  constructor(name: string) {
    this.#name = name;
  }

  /** @throws {CaptureError} when there are too many user requests */
  see(change: Change): void {
    const { atMs, resource, object, listed, deleted } = change;
    this.#userRequests.see(change);
    this.#namespaces.add(object.metadata.namespace);
    // An object of a later list may have changed since it was last seen.
    const place = placeOf(object);
    if (listed && !deleted && !this.#standing.has(place)) this.#standing.set(place, { resource, object });
    if (resource === "pods") this.#kinds.set(templateOf(object), this.#kinds.get(templateOf(object)) === true || isReady(object));
    [this.#startMs, this.#endMs] = [Math.min(this.#startMs, atMs), Math.max(this.#endMs, atMs)];
    if (this.#userRequests.userRequests.writes.length > USER_REQUESTS_MAX)
      throw new CaptureError(
        `${this.#name}: capture contains more than ${USER_REQUESTS_MAX} user requests, the maximum of replay --closed`,
      );
  }

  get life(): Life {
    return {
      startMs: Number.isFinite(this.#startMs) ? this.#startMs : 0,
      endMs: Number.isFinite(this.#endMs) ? this.#endMs : 0,
      namespaces: this.#namespaces,
      standing: [...this.#standing.values()],
      userRequests: this.#userRequests.userRequests,
      recorded: this.#userRequests.standing,
      never: new Set([...this.#kinds].flatMap(([kind, wasReady]) => (wasReady ? [] : [kind]))),
    };
  }
}

/** Identifies the template of a pod: its owner's name and template hash; a pod without owner has its own identifier. */
export function templateOf({ metadata }: LiveObject): string {
  const owner = controllerRef(metadata);
  return `${metadata.namespace}/${owner?.name ?? metadata.name}`;
}

function isReady({ status }: LiveObject): boolean {
  const conditions = (status?.["conditions"] ?? []) as readonly { readonly type?: string; readonly status?: string }[]; // the value is a pod's status
  return conditions.some((condition) => condition.type === "Ready" && condition.status === "True");
}
