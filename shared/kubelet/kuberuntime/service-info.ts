import type { V1Service } from "@kubernetes/client-node";
import type { KubeObject, Wire } from "../../api/wire.ts";
import type { ServiceInfo } from "./environment.ts";

/** What environment variables say of a Service; `object` is one, as the API server listed it. */
export function serviceInfo(object: KubeObject): ServiceInfo {
  const { spec } = object as KubeObject & Pick<Wire<V1Service>, "spec">; // the resource asked for names the type
  const { name, namespace = "" } = object.metadata;
  return {
    name,
    namespace,
    ...(spec?.clusterIP !== undefined && { clusterIP: spec.clusterIP }),
    ports: (spec?.ports ?? []).map(({ name: port, port: number, protocol }) => ({
      port: number,
      ...(port !== undefined && { name: port }),
      ...(protocol !== undefined && { protocol }),
    })),
  };
}
