/**
 * Two controllers on one object fight. Upstream's write their statuses as field manager `kube-controller-manager`; a
 * watcher that acts looks for such a write, newer than its own start, in what it reads anyway.
 */
import { CONTROLLERS } from "../../shared/api/resources.ts";
import type { CachedResource } from "../../shared/api/resources.ts";
import type { KubeWatch } from "../../shared/ports/kube.ts";

export class UpstreamActiveError extends Error {
  override readonly name = "UpstreamActiveError";
}

const MANAGER = "kube-controller-manager";

/** Sees every line and every listed object on its way; `found` is called once per sighting. */
export function guardAgainstUpstream(kube: KubeWatch, startedMs: number, found: (error: UpstreamActiveError) => void): KubeWatch {
  const look = (object: unknown): void => {
    const error = upstreamWrite(object, startedMs);
    if (error) found(error);
  };
  /** Pods' statuses are their kubelets', and there are very many. */
  const isLookedAt = (resource: CachedResource): boolean => resource !== "pods";
  return {
    async listPage(resource, query, signal) {
      const page = await kube.listPage(resource, query, signal);
      if (isLookedAt(resource)) page.items.forEach(look);
      return page;
    },
    newestVersion: (...asked) => kube.newestVersion(...asked),
    async *watch(resource, query, signal) {
      for await (const lines of kube.watch(resource, query, signal)) {
        // Cheap first: the name stands in few lines, and a line is parsed again by the Reflector anyway.
        if (isLookedAt(resource)) for (const line of lines) if (line.includes(MANAGER)) look(objectOf(line));
        yield lines;
      }
    },
  };
}

interface Managed {
  readonly kind?: string;
  readonly metadata?: {
    readonly namespace?: string;
    readonly name?: string;
    readonly managedFields?: readonly { readonly manager?: string; readonly subresource?: string; readonly time?: string }[];
  };
}

/** `time` has whole seconds: a write of the second in which we started is not counted. */
export function upstreamWrite(object: unknown, startedMs: number): UpstreamActiveError | undefined {
  const { metadata, kind } = (object ?? {}) as Managed; // every field is optional here
  const write = metadata?.managedFields?.find(
    ({ manager, subresource, time }) => manager === MANAGER && subresource === "status" && Date.parse(time ?? "") > startedMs,
  );
  if (!write) return undefined;
  return new UpstreamActiveError(
    `${kind ?? "object"} ${metadata?.namespace}/${metadata?.name} had its status written by ${MANAGER} at ${write.time}: the cluster runs these loops itself. ` +
      `Start it with --controllers=*,${CONTROLLERS.map((controller) => `-${controller}-controller`).join()}, or stay in shadow`,
  );
}

function objectOf(line: string): unknown {
  try {
    return (JSON.parse(line) as { readonly object?: unknown }).object;
  } catch {
    return undefined; // the Reflector deals with it
  }
}
