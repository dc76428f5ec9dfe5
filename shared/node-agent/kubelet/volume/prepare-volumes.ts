/** Prepares the volumes of a pod before its sandbox (node-agent §5.1 steps 9 and 10, §10). */
import type { FencedUpdate } from "../pod-workers/update-worker.ts";
import type { ConfigMapData, ReferencedObjects, SecretData } from "../types/referenced-objects.ts";
import { allocatableOf, type NodeResources } from "../types/node-options.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { messageOf, type KubeObject } from "@deltaloop/kube/objects";
import { ownAt } from "@deltaloop/base";
import { StepError } from "../node-ports/operations.ts";
import { ephemeralContainersOf, initContainersOf, type ContainerSpec, type NodePod, type VolumeSpec } from "../types/pod.ts";
import { readProjectedSources } from "./projected-sources.ts";
import { volumePayload } from "./volume-payload.ts";
import { VolumeError } from "../types/volume-error.ts";
import { fsGroupOf, volumePlans, type VolumePlan } from "./volumes.ts";
import { retriedInSync, VolumeRetryError, withVolumeBackOff } from "./volume-retries.ts";

export type PrepareVolumesPorts = Pick<
  NodePorts,
  "store" | "files" | "clock" | "objects" | "podCertificates" | "condition" | "podEvent" | "options" | "resources"
>;

/** Host paths by volume name. */
export type VolumePaths = Readonly<Record<string, string>>;

/** A volume cannot be set up now. The error has the message of the FailedMount event. */
export class MountError extends StepError {
  override readonly name = "MountError";
  readonly volume: string;
  /** Whether an attempt was made; false during the back-off. */
  readonly isAttempt: boolean;

  constructor(volume: string, error: VolumeRetryError) {
    super(`MountVolume.SetUp failed for volume "${volume}" : ${error.message}`, { retryAtMs: error.retryAtMs, cause: error.cause });
    this.volume = volume;
    this.isAttempt = error.cause !== undefined;
  }
}

type Read = { readonly object: KubeObject | undefined } | { readonly error: unknown };

export interface PodVolumes {
  readonly mount: (how: { readonly isUp: boolean }) => Promise<MountedVolumes>;
  /** Starts the removal of all directories of the pod, as an operation (OP1). @throws {Pause} while it runs */
  readonly unmount: () => Promise<void>;
}

export interface MountedVolumes {
  readonly objects: ReferencedObjects;
  readonly volumePaths: VolumePaths;
}

export function podVolumes(ports: PrepareVolumesPorts & Pick<NodePorts, "operations">, pod: NodePod, update: FencedUpdate): PodVolumes {
  const { operations, files } = ports;
  const { uid } = pod.metadata;
  const pause = "the pod's volumes are being removed";
  const remove = (): Promise<void> => operations.run({ uid, name: "remove", act: () => files.removePodDirectory(uid), pause });
  return {
    mount: (how) => mountVolumes(ports, { pod, update }, how),
    unmount: () => retriedInSync(ports, uid, () => withVolumeBackOff(ports, { uid, update }, remove)),
  };
}

/**
 * Reads the referenced objects and sets up the volumes; retries while the next attempt is due within this sync. If an update of a running
 * pod's volume fails, the pod keeps its mounted version. @throws {AggregateError} with the failures of volumes that have no path
 */
async function mountVolumes(
  ports: PrepareVolumesPorts & Pick<NodePorts, "operations">,
  { pod, update }: { readonly pod: NodePod; readonly update: FencedUpdate },
  { isUp }: { readonly isUp: boolean },
): Promise<MountedVolumes> {
  return await retriedInSync(ports, pod.metadata.uid, async () => {
    const objects = await readReferences(ports, pod);
    const { paths, failures } = await prepareVolumes(ports, pod, objects, { acceptsOld: isUp, update });
    for (const { message, isAttempt } of failures) if (isAttempt) ports.podEvent(pod, { type: "Warning", reason: "FailedMount", message });
    const lacking = failures.filter(({ volume }) => ownAt(paths, volume) === undefined);
    if (lacking.length > 0) throw new AggregateError(lacking, lacking.map(({ message }) => message).join("; "));
    return { objects, volumePaths: paths };
  });
}

/** Reads the referenced ConfigMaps and Secrets. Accessing an object whose read failed throws that API error. */
async function readReferences(ports: Pick<NodePorts, "objects">, pod: NodePod): Promise<ReferencedObjects> {
  const { namespace } = pod.metadata;
  const { configMaps, secrets } = podReferences(pod);
  const read = async (resource: "configmaps" | "secrets", name: string): Promise<readonly [string, Read]> => {
    try {
      return [name, { object: await ports.objects.get(resource, namespace, name) }];
    } catch (error) {
      return [name, { error }];
    }
  };
  const [configMapsByName, secretsByName] = await Promise.all([
    Promise.all(configMaps.map((name) => read("configmaps", name))),
    Promise.all(secrets.map((name) => read("secrets", name))),
  ]).then((lists) => lists.map((list) => new Map(list)));
  const found = (answers: ReadonlyMap<string, Read> | undefined, name: string): KubeObject | undefined => {
    const answer = answers?.get(name);
    if (answer === undefined) return undefined;
    if ("error" in answer) throw answer.error;
    return answer.object;
  };
  return {
    // The requested resource implies the type.
    configMap: (name) => found(configMapsByName, name) as ConfigMapData | undefined,
    secret: (name) => found(secretsByName, name) as SecretData | undefined,
  };
}

/** Sets up or updates all volumes; idempotent. With `acceptsOld`, a failed volume keeps its existing path. */
async function prepareVolumes(
  ports: PrepareVolumesPorts,
  pod: NodePod,
  objects: ReferencedObjects,
  { acceptsOld, update }: { readonly acceptsOld: boolean; readonly update: FencedUpdate },
): Promise<{ readonly paths: VolumePaths; readonly failures: readonly MountError[] }> {
  const { uid } = pod.metadata;
  await ports.files.makePodDirectories(uid).catch((error: unknown) => {
    ports.podEvent(pod, { type: "Warning", reason: "Failed", message: `error making pod data directories: ${messageOf(error)}` });
    throw error;
  });
  const volumes = new Map((pod.spec.volumes ?? []).map((volume) => [volume.name, volume]));
  const failures: MountError[] = [];
  const paths: Record<string, string> = {};
  const allocatable = allocatableOf(ports.resources, ports.options.eviction);
  await Promise.all(
    volumePlans(pod, allocatable.memoryBytes).map(async (plan) => {
      try {
        const prepare = () => prepareVolume(ports, pod, { plan, volume: volumes.get(plan.name), objects, allocatable });
        paths[plan.name] = await withVolumeBackOff(ports, { uid, update, volume: plan.name }, prepare);
      } catch (error) {
        if (!(error instanceof VolumeRetryError)) throw error;
        failures.push(new MountError(plan.name, error));
        const old = acceptsOld ? await ports.files.volumePath({ uid, plugin: plan.plugin, name: plan.name }) : undefined;
        if (old !== undefined) paths[plan.name] = old;
      }
    }),
  );
  return { paths, failures };
}

async function prepareVolume(
  ports: Pick<NodePorts, "files" | "objects" | "podCertificates" | "condition">,
  pod: NodePod,
  given: {
    readonly plan: VolumePlan;
    readonly volume: VolumeSpec | undefined;
    readonly objects: ReferencedObjects;
    readonly allocatable: NodeResources;
  },
): Promise<string> {
  const { plan, volume, objects, allocatable } = given;
  const place = { uid: pod.metadata.uid, plugin: plan.plugin, name: plan.name };
  const fsGroup = fsGroupOf(pod);
  const owned = fsGroup === undefined ? {} : { fsGroup };
  switch (plan.kind) {
    case "emptyDir": {
      const { medium, sizeLimitBytes } = plan;
      return await ports.files.makeEmptyDir(place, {
        ...owned,
        ...(medium !== undefined && { medium }),
        ...(sizeLimitBytes !== undefined && { sizeLimitBytes }),
      });
    }
    case "hostPath":
      await ports.files.checkHostPath(plan.path, plan.type);
      return plan.path;
    case "payload": {
      if (volume === undefined) throw new VolumeError(`the pod has no volume ${plan.name}`);
      const payload = volumePayload({ pod, volume, objects, allocatable, ...(await readProjectedSources(ports, pod, volume)) });
      return await ports.files.writeVolume(place, payload, { ...owned, ...(plan.tmpfs && { tmpfs: true }) });
    }
    case "unsupported":
      throw new VolumeError(plan.message);
    default:
      throw new Error(`unknown plan ${JSON.stringify(plan satisfies never)}`);
  }
}

/** Names of objects in the pod's namespace, sorted and distinct, including optional references. */
export interface PodReferences {
  readonly configMaps: readonly string[];
  readonly secrets: readonly string[];
}

/** References by name. An empty or absent name, which the API server accepts in some fields, refers to no object. */
interface Names {
  readonly configMaps: readonly (string | undefined)[];
  readonly secrets: readonly (string | undefined)[];
}

/**
 * Returns the ConfigMaps and Secrets that the environment, the volumes and the image pulls reference. Source: pkg/api/v1/pod/util.go
 * VisitPodConfigmapNames, VisitPodSecretNames. Differs from upstream: omits secrets of volume types that the agent does not mount (§10).
 */
export function podReferences(pod: NodePod): PodReferences {
  const containers = [...initContainersOf(pod), ...pod.spec.containers, ...ephemeralContainersOf(pod)];
  const all: readonly Names[] = [
    { configMaps: [], secrets: (pod.spec.imagePullSecrets ?? []).map(({ name }) => name) },
    ...containers.map(namesOfEnvironment),
    ...(pod.spec.volumes ?? []).map(namesOfVolume),
  ];
  return { configMaps: distinct(all.flatMap(({ configMaps }) => configMaps)), secrets: distinct(all.flatMap(({ secrets }) => secrets)) };
}

function namesOfEnvironment({ env = [], envFrom = [] }: ContainerSpec): Names {
  return {
    configMaps: [...envFrom.map(({ configMapRef }) => configMapRef?.name), ...env.map(({ valueFrom }) => valueFrom?.configMapKeyRef?.name)],
    secrets: [...envFrom.map(({ secretRef }) => secretRef?.name), ...env.map(({ valueFrom }) => valueFrom?.secretKeyRef?.name)],
  };
}

function namesOfVolume({ configMap, projected, secret }: VolumeSpec): Names {
  const sources = projected?.sources ?? [];
  return {
    configMaps: [configMap?.name, ...sources.map((source) => source.configMap?.name)],
    secrets: [secret?.secretName, ...sources.map((source) => source.secret?.name)],
  };
}

function distinct(names: readonly (string | undefined)[]): readonly string[] {
  return [...new Set(names.flatMap((name) => name || []))].toSorted();
}
