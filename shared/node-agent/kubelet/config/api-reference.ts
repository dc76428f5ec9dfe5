/**
 * References from a pod spec to API objects. Static pods must have no such references, because the API server would reject their mirrors
 * (node-agent §2.1).
 */
import type { ContainerSpec, PodSpec, VolumeSpec } from "../types/pod.ts";

export interface ApiReference {
  /** Resource in the plural, such as `secrets`. */
  readonly resource: string;
  /** Location in the spec. */
  readonly field: string;
}

/** Volume sources that reference no API object. */
const LOCAL_VOLUMES: readonly string[] = [
  "awsElasticBlockStore",
  "azureDisk",
  "cephfs",
  "cinder",
  "downwardAPI",
  "emptyDir",
  "fc",
  "flexVolume",
  "flocker",
  "gcePersistentDisk",
  "gitRepo",
  "hostPath",
  "image",
  "iscsi",
  "nfs",
  "photonPersistentDisk",
  "portworxVolume",
  "quobyte",
  "rbd",
  "scaleIO",
  "storageos",
  "vsphereVolume",
];

const API_VOLUMES: ReadonlyMap<string, string> = new Map([
  ["configMap", "configmaps"],
  ["secret", "secrets"],
  ["csi", "csidrivers"],
  ["glusterfs", "endpoints"],
  ["persistentVolumeClaim", "persistentvolumeclaims"],
  ["ephemeral", "persistentvolumeclaims"],
  ["azureFile", "secrets"],
]);

const API_PROJECTIONS: ReadonlyMap<string, string> = new Map([
  ["configMap", "configmaps"],
  ["secret", "secrets"],
  ["serviceAccountToken", "serviceaccounts"],
  ["clusterTrustBundle", "clustertrustbundles"],
  ["podCertificate", "podcertificates"],
]);

/**
 * Returns the first reference to an API object, if any. An unknown volume type counts as a reference. Source: pkg/api/pod/util.go
 * HasAPIObjectReference.
 */
export function apiReference(spec: PodSpec): ApiReference | undefined {
  if ((spec.serviceAccountName ?? "") !== "") return { resource: "serviceaccounts", field: "serviceAccountName" };
  if ((spec.imagePullSecrets ?? []).length > 0) return { resource: "secrets", field: "imagePullSecrets" };
  if ((spec.resourceClaims ?? []).length > 0) return { resource: "resourceclaims", field: "resourceClaims" };
  for (const container of [...(spec.initContainers ?? []), ...spec.containers]) {
    const found = environmentReference(container);
    if (found !== undefined) return found;
  }
  for (const volume of spec.volumes ?? []) {
    const found = volumeReference(volume);
    if (found !== undefined) return found;
  }
  return undefined;
}

function environmentReference({ name, env = [], envFrom = [] }: ContainerSpec): ApiReference | undefined {
  const field = `environment of container ${name}`;
  if (envFrom.some(({ secretRef }) => secretRef !== undefined)) return { resource: "secrets", field };
  if (envFrom.some(({ configMapRef }) => configMapRef !== undefined)) return { resource: "configmaps", field };
  if (env.some(({ valueFrom }) => valueFrom?.secretKeyRef !== undefined)) return { resource: "secrets", field };
  if (env.some(({ valueFrom }) => valueFrom?.configMapKeyRef !== undefined)) return { resource: "configmaps", field };
  return undefined;
}

function volumeReference(volume: VolumeSpec): ApiReference | undefined {
  const field = `volume ${volume.name}`;
  for (const [kind, source] of sourcesOf(volume)) {
    if (kind === "name") continue;
    const resource = API_VOLUMES.get(kind);
    if (resource !== undefined) return { resource, field };
    if (kind !== "projected" && !LOCAL_VOLUMES.includes(kind)) return { resource: "objects of an unknown kind", field };
    // Volume types that can have a secretRef: rbd, iscsi, cephfs, cinder, flexVolume, scaleIO, storageos.
    if ((source as { readonly secretRef?: unknown }).secretRef !== undefined) return { resource: "secrets", field };
  }
  for (const [kind] of (volume.projected?.sources ?? []).flatMap(sourcesOf)) {
    if (kind !== "downwardAPI") return { resource: API_PROJECTIONS.get(kind) ?? "objects of an unknown kind", field };
  }
  return undefined;
}

function sourcesOf(object: object): readonly (readonly [string, object])[] {
  return Object.entries(object).filter((entry): entry is [string, object] => entry[1] !== undefined && entry[1] !== null);
}
