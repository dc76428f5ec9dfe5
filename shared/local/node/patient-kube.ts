/**
 * A node's way to the API server, patient with its authorizer: which objects are a node's is worked out there from a watch of its
 * own, so for some milliseconds after a pod was bound the node that has seen it already is refused the pod, its ConfigMaps, Secrets
 * and tokens ("no relationship found"). Source: plugin/pkg/auth/authorizer/node/node_authorizer.go.
 */
import type { Resource } from "../../api/resources.ts";
import type { Clock } from "../../ports/clock.ts";
import { isForbidden } from "../../ports/errors.ts";
import type { KubeReader, KubeWatch, KubeWriter } from "../../ports/kube.ts";

/** What is refused for good is said 1.3 s later. */
const PAUSES_MS: readonly number[] = [100, 300, 900];

type NodeKube = KubeReader & KubeWriter & KubeWatch<Resource>;

/** Only what is asked by name: lists, watches and what a node writes of itself do not depend on pods. */
export function patientKube(kube: NodeKube, clock: Clock): NodeKube {
  const patiently = async <T>(call: () => Promise<T>): Promise<T> => {
    for (const pauseMs of PAUSES_MS) {
      try {
        return await call();
      } catch (error) {
        if (!isForbidden(error)) throw error;
      }
      await clock.after(pauseMs);
    }
    return await call();
  };
  return {
    ...kube,
    get: (resource, namespace, name) => patiently(() => kube.get(resource, namespace, name)),
    create: (request) => (request.of === undefined ? kube.create(request) : patiently(() => kube.create(request))),
    patch: (request) => patiently(() => kube.patch(request)),
    delete: (request) => patiently(() => kube.delete(request)),
  };
}
