/** One API server with its own clock, its users and nodes, and the entry point for the requests of the tested controllers. */
import { createVirtualClock, type VirtualClock } from "../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import type { JsonObject } from "../../../shared/base/json.ts";
import type { CachedResource } from "../../../shared/kube/objects/resources.ts";
import { createApiServer, type ApiResponse, type ApiServer } from "../../../shared/api-server/api-server.ts";
import type { ApiRequest } from "../../../shared/api-server/rest/request-info.ts";
import { collection, NAMESPACE, refusalOf, storageId, type Fields } from "../shared-api-server.ts";
import { People } from "./people.ts";
import type { Act } from "./script.ts";
import { annotationsOf, changesOf, eventTextOf, labelsOf, nameOf, ownerOf, rankOf, specOf, statusOf } from "./words.ts";

/** The start time; not a whole second, for the reason in shared-api-server.ts. */
export const START_MS = Date.parse("2026-03-01T10:00:00.001Z");
const VERBS: Readonly<Record<string, string>> = { POST: "create", PUT: "change", PATCH: "change", DELETE: "delete" };

/** A request of the tested controllers that changed something, or was rejected. */
export interface Line {
  /** Milliseconds since the start of the history. */
  readonly atMs: number;
  readonly kind: "write" | "status" | "refused";
  /** The object of the request; for pods only the resource, because their names are random. */
  readonly object: string;
  readonly text: string;
}

/** The error that ends a watch whose next version is too old, so that the client lists again. */
export const EXPIRED = {
  type: "ERROR",
  object: { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message: "too old", reason: "Expired", code: 410 },
};

type Refusing = Extract<Act, { kind: "refuse" }>;

export class Scenario {
  readonly clock: VirtualClock = createVirtualClock(START_MS);
  readonly server: ApiServer;
  readonly people: People;
  readonly lines: Line[] = [];
  /** Resources whose events are dropped. */
  readonly blind = new Set<CachedResource>();
  readonly #seeing: ((resource: CachedResource) => void)[] = [];
  /** The Events with their current counts. */
  readonly #events: { readonly called: string; event: Fields }[] = [];
  /** The current rejection rule, with the number of passed and of rejected requests. */
  #refusing: { readonly what: Refusing; passed: number; refused: number } | undefined;

  private constructor() {
    this.server = createApiServer({ clock: this.clock, random: createSeededRandom(1), garbageCollection: false });
    this.people = new People(this.server, this.clock);
  }

  static async create(begin: readonly { readonly resource: CachedResource; readonly body: object }[]): Promise<Scenario> {
    const scenario = new Scenario();
    await scenario.people.ask("POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
    for (const { resource, body } of begin) await scenario.people.ask("POST", collection(resource), body);
    return scenario;
  }

  get nowMs(): number {
    return this.clock.now() - START_MS;
  }

  /** Handles a request of the tested controllers. */
  async request(request: ApiRequest): Promise<ApiResponse> {
    const verb = VERBS[request.method];
    if (verb === undefined) return await this.server.request(request);
    const [, , resource = "", name = "", subresource] =
      /\/namespaces\/([^/]+)\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(request.path) ?? [];
    if (resource === "events") return this.#tell(name, fieldsOf(request.body));
    const target = subresource === undefined ? resource : `${resource}/${subresource}`;
    const before = name === "" ? undefined : (this.server.peek(storageId(resource), NAMESPACE, name) as Fields | undefined); // JSON
    const refusal = this.#refusalOf(verb, target);
    const answer = refusal ?? (await this.server.request(request));
    const after = answer.kind === "object" ? (answer.body as Fields) : {}; // JSON
    const object = resource === "pods" ? "pods" : `${resource} ${name === "" ? nameOf(after) : name}`;
    const note = (kind: Line["kind"], text: string): void => void this.lines.push({ atMs: this.nowMs, kind, object, text });
    if (answer.status >= 400) {
      if (verb === "delete" && answer.status === 404) note("write", `delete ${target} that is gone`);
      // A conflict without a rule is a race of the tested controller with itself or with users, and the controller retries it.
      if (refusal !== undefined) {
        // the body of a create of a pod
        const whose = resource === "pods" && verb === "create" ? ownerOf(fieldsOf(request.body) as never) : object;
        this.lines.push({ atMs: this.nowMs, kind: "refused", object: whose, text: `${verb} ${target} ${answer.status}` });
      }
    } else if (subresource === "status") {
      if (statusOf(before ?? {}) !== statusOf(after)) note("status", statusOf(after));
    } else if (verb === "create") {
      const size = resource === "pods" ? "" : ` ${specOf(after["spec"] ?? {})} ${annotationsOf(after)}`;
      note("write", `create ${target} ${labelsOf(after)}${size}`);
    } else if (verb === "delete") note("write", `delete ${target} ${resource === "pods" ? rankOf(before ?? {}) : name}`);
    else {
      const changed = changesOf(before ?? {}, after);
      if (changed !== "") note("write", `change ${target} ${changed}`);
    }
    return answer;
  }

  /** Calls `told` with a resource whose watches must end because events were lost. */
  onSeeing(told: (resource: CachedResource) => void): void {
    this.#seeing.push(told);
  }

  #refusalOf(verb: string, target: string): ApiResponse | undefined {
    const now = this.#refusing;
    if (now === undefined || now.what.verb !== verb || now.what.resource !== target) return undefined;
    if (now.passed < now.what.skip) return void now.passed++;
    if (now.refused >= now.what.times) return undefined;
    now.refused++;
    return refusalOf(now.what.refusal);
  }

  /** Creates or updates an Event. While virtual time stands still, upstream may create two combined Events with one name. */
  #tell(name: string, sent: Fields): ApiResponse {
    const called = name === "" ? nameOf(sent) : name;
    const counted =
      name === ""
        ? undefined
        : this.#events.findLast(
            (told) => told.called === called && Number(told.event["count"]) < Number(sent["count"]) && isLike(told.event, sent),
          );
    const event = { ...counted?.event, ...sent };
    if (counted === undefined) this.#events.push({ called, event });
    else counted.event = event;
    // the Event was sent as JSON
    return { kind: "object", status: counted === undefined ? 201 : 200, headers: {}, body: event as JsonObject };
  }

  async act(act: Act): Promise<void> {
    if (act.kind === "refuse") this.#refusing = { what: act, passed: 0, refused: 0 };
    else if (act.kind === "heal") this.#refusing = undefined;
    else if (act.kind === "blind") this.blind.add(act.resource);
    else if (act.kind === "see") {
      this.blind.delete(act.resource);
      for (const told of this.#seeing) told(act.resource);
    } else await this.people.act(act);
  }

  /** The final objects, in a form that both sides share. */
  async state(resources: readonly CachedResource[]): Promise<readonly string[]> {
    const owners = [];
    for (const resource of resources)
      for (const object of (await this.people.all(resource)) as unknown as readonly Fields[])
        // JSON
        owners.push(`${resource} ${nameOf(object)} ${specOf(object["spec"] ?? {})} ${statusOf(object)} ${annotationsOf(object)}`);
    const pods = (await this.people.pods()).map((pod) => `pod ${rankOf(pod as unknown as Fields)} ${ownerOf(pod)}`); // JSON
    return [...owners, ...pods.toSorted()];
  }

  /** Returns the number of Events by text, in the order of their first occurrence. */
  events(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { event } of this.#events) {
      const text = eventTextOf(event);
      counts.set(text, (counts.get(text) ?? 0) + Number(event["count"]));
    }
    return counts;
  }
}

function fieldsOf(body: unknown): Fields {
  return (typeof body === "string" ? JSON.parse(body) : body) as Fields; // JSON of an API client
}

/** Returns whether both Events are combined ones, or neither is; a patch without a message does not change it. */
function isLike(event: Fields, { message }: Fields): boolean {
  const isCombined = (text: unknown): boolean => String(text).startsWith("(combined");
  return message === undefined || isCombined(message) === isCombined(event["message"]);
}
