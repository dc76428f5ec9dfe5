/**
 * A read-only API server with the objects of a capture at a selectable moment.
 *
 * OF1 it serves only paths that start with a secret: other users of the machine, and any page in a browser, can connect to a loopback port.
 *     A bearer token does not suffice, because kubectl sends none without TLS.
 * OF2 it is read-only: it rejects all methods except GET, and kubectl's access reviews.
 * OF3 changing the moment closes all watches; their clients list again.
 */
import { createVirtualClock, createSeededRandom } from "@deltaloop/base/memory";
import type { JsonObject } from "@deltaloop/base";
import { createApiServer, serveHttp } from "@deltaloop/api-server";
import type { ApiServer, HttpApiServer } from "@deltaloop/api-server";

type ApiRequest = Parameters<ApiServer["request"]>[0];
type ApiResponse = Awaited<ReturnType<ApiServer["request"]>>;

export interface Past {
  readonly atMs: number;
  readonly objects: readonly (readonly [resource: string, object: JsonObject])[];
  /** Returns warnings, each of which kubectl prints once per command. */
  readonly warningsOf: (resource: string) => readonly string[];
}

/** The path below the secret that changes the moment: PUT with the time as text. */
export const MOMENT = "/moment";

const READ_ONLY = "this is a capture: it can be read, and nothing can be changed";

export class PastServer {
  readonly #secret: string;
  readonly #move: (time: string) => Promise<Past>;
  #past: Past;
  #server: ApiServer;

  /** @param move reads the objects at another moment, or throws an error for the client */
  constructor(secret: string, past: Past, move: (time: string) => Promise<Past>) {
    [this.#secret, this.#past, this.#move, this.#server] = [secret, past, move, serverOf(past)];
  }

  /** Serves on a free loopback port. `url` does not contain the secret. */
  async listen(port: number): Promise<HttpApiServer> {
    return serveHttp({ request: (request) => this.#request(request), closeWatches: () => this.#server.closeWatches() }, { port });
  }

  /** Changes the moment. @throws errors of `move`, after which nothing has changed */
  async moveTo(time: string): Promise<Past> {
    const past = await this.#move(time);
    const former = this.#server;
    [this.#past, this.#server] = [past, serverOf(past)];
    former.close();
    return past;
  }

  async #request(request: ApiRequest): Promise<ApiResponse> {
    const prefix = `/${this.#secret}`;
    if (!request.path.startsWith(`${prefix}/`)) return refusal(403, "Forbidden", "use the kubeconfig that deltaloop open printed");
    const path = request.path.slice(prefix.length);
    if (path === MOMENT && request.method === "PUT") return this.#moved(String(request.body));
    const isReview = path.startsWith("/apis/authorization.k8s.io/") || path.startsWith("/apis/authentication.k8s.io/");
    if (request.method !== "GET" && !isReview) return refusal(405, "MethodNotAllowed", READ_ONLY);
    const response = await this.#server.request({ ...request, path });
    const warnings = this.#past.warningsOf(resourceIn(path));
    if (warnings.length === 0) return response;
    return { ...response, headers: { ...response.headers, warning: warnings.map(warningValue).join(", ") } };
  }

  async #moved(time: string): Promise<ApiResponse> {
    try {
      const { atMs } = await this.moveTo(time);
      return { kind: "text", status: 200, headers: { "content-type": "text/plain" }, body: new Date(atMs).toISOString() };
    } catch (error) {
      return refusal(400, "BadRequest", error instanceof Error ? error.message : String(error));
    }
  }
}

function serverOf({ atMs, objects }: Past): ApiServer {
  const newest = objects.reduce((most, [, object]) => (versionOf(object) > most ? versionOf(object) : most), 1n);
  return createApiServer({
    clock: createVirtualClock(atMs),
    random: createSeededRandom(1),
    garbageCollection: false,
    firstRevision: newest,
    objects: objects.map(([resource, object]) => [resource, structuredClone(object)]),
  });
}

function versionOf({ metadata }: JsonObject): bigint {
  const { resourceVersion } = metadata as JsonObject; // the value is from a captured object
  return typeof resourceVersion === "string" && /^\d+$/.test(resourceVersion) ? BigInt(resourceVersion) : 0n;
}

/** The name of a capture may contain characters that are invalid in a header. */
function warningValue(text: string): string {
  return `299 - ${JSON.stringify(text.replaceAll(/[^\x20-\x7e]/g, "?"))}`;
}

/** The resource in a path: `pods` of `/api/v1/namespaces/shop/pods/web`; empty for paths without one, such as discovery. */
function resourceIn(path: string): string {
  const [, version, scoped] = /^\/(?:api|apis\/[^/]+)\/([^/]+)\/(.+)$/.exec(path) ?? [];
  if (version === undefined || scoped === undefined) return "";
  const [first = "", , resource = first] = scoped.split("/");
  return first === "namespaces" ? resource : first;
}

function refusal(code: number, reason: string, message: string): ApiResponse {
  const body = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, code };
  return { kind: "object", status: code, headers: { "content-type": "application/json" }, body };
}
