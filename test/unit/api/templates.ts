/** Pod templates for the tests of this folder, as an API server 1.36 serves them. */
import { type GoType, podTemplateLayout } from "../../../shared/kube/pod-template/pod-template-layout.ts";
import type { Release } from "../../../shared/kube/releases.ts";
import type { PodTemplateSpec } from "../../../shared/kube/objects/wire.ts";

type Container = NonNullable<PodTemplateSpec["spec"]>["containers"][number];
type PodSpec = NonNullable<PodTemplateSpec["spec"]>;

/** Template H1 of deployment §7.3: the result of `kubectl create deployment nginx --image=nginx`. */
export function template(
  change: { metadata?: PodTemplateSpec["metadata"]; spec?: Partial<PodSpec>; container?: Partial<Container> } = {},
): PodTemplateSpec {
  return {
    metadata: { labels: { app: "nginx" }, ...change.metadata },
    spec: {
      containers: [
        {
          name: "nginx",
          image: "nginx",
          resources: {},
          terminationMessagePath: "/dev/termination-log",
          terminationMessagePolicy: "File",
          imagePullPolicy: "Always",
          ...change.container,
        },
      ],
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      dnsPolicy: "ClusterFirst",
      securityContext: {},
      schedulerName: "default-scheduler",
      ...change.spec,
    },
  };
}

/** A template with every field of a release set once: strings are named after their key, numbers are its length. */
export function everyField(release: Release): PodTemplateSpec {
  return filled({ kind: "struct", text: "", struct: podTemplateLayout(release) }, "") as PodTemplateSpec;
}

function filled(type: GoType, key: string): unknown {
  switch (type.kind) {
    case "string":
      return key;
    case "bool":
      return true;
    case "int":
      return key.length;
    case "quantity":
      return "1500m";
    case "intOrString":
      return "http";
    case "time":
      return undefined;
    case "pointer":
      return filled(type.element, key);
    case "list":
      return [filled(type.element, key)];
    case "map":
      return { [key]: filled(type.element, key) };
    case "struct":
      return Object.fromEntries(
        [...type.struct.byKey].filter(([name]) => name !== "managedFields").map(([name, field]) => [name, filled(field, name)]),
      );
    default:
      return type satisfies never;
  }
}
