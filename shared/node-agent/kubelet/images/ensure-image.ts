/** Ensures that a container's image is present, or throws the reason why it is not (node-agent §8). */
import type { AuthConfig, Image } from "../../ports/cri-types.ts";
import {
  afterFailedPull,
  defaultPullPolicy,
  imageDecision,
  imageNameMistake,
  imageRef,
  pullBackOffKey,
  pullCredentials,
} from "./image-pull.ts";
import { aggregateText, backOffMessage, pulledMessage, pullFailure } from "./pull-messages.ts";
import type { SecretData } from "../types/referenced-objects.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { ContainerSpec, NodePod } from "../types/pod.ts";
import { criErrorText, pullErrorText } from "./cri-error-text.ts";
import { Pause, StartError } from "../node-ports/operations.ts";
import type { FencedUpdate } from "../pod-workers/update-worker.ts";

type EnsureImagePorts = Pick<NodePorts, "cri" | "store" | "credentials" | "clock" | "operations" | "puller" | "objects" | "podEvent">;

/**
 * Delay after a failed pull until the next sync, which reports ImagePullBackOff; users and tools wait for this reason. In upstream, the
 * next relist triggers this sync.
 */
const BACK_OFF_REPORT_MS = 1_000;

type Emit = (type: "Normal" | "Warning", reason: string, message: string) => void;

/** @throws {StartError} if the image is unavailable for now @throws {Pause} while the pull continues */
export async function ensureImage(ports: EnsureImagePorts, pod: NodePod, container: ContainerSpec, update: FencedUpdate): Promise<Image> {
  const emit: Emit = (type, reason, message) => ports.podEvent(pod, { type, reason, message, container: container.name });
  try {
    return await ensured(ports, pod, container, { emit, update });
  } catch (error) {
    if (error instanceof StartError) emit("Warning", "Failed", `Error: ${error.reason}`);
    throw error;
  }
}

interface Ensuring {
  readonly emit: Emit;
  readonly update: FencedUpdate;
}

async function ensured(ports: EnsureImagePorts, pod: NodePod, container: ContainerSpec, { emit, update }: Ensuring): Promise<Image> {
  const { cri, store, clock, operations } = ports;
  const { uid } = pod.metadata;
  const wanted = container.image ?? "";
  const mistake = imageNameMistake(wanted);
  if (mistake !== undefined) {
    const message = `Failed to apply default image tag "${wanted}": couldn't parse image name "${wanted}": ${mistake}`;
    emit("Warning", "InspectFailed", message);
    throw new StartError("InvalidImageName", message);
  }
  // A pull that is running or has just ended needs no new decision.
  if (operations.has(uid, pullName(wanted))) return await pull(ports, pod, wanted, { emit, update });
  const policy = container.imagePullPolicy ?? defaultPullPolicy(wanted);
  const present =
    policy === "Always"
      ? undefined
      : await cri.imageStatus({ image: imageRef(wanted) }).catch((error: unknown) => {
          // The image id in the message is empty in upstream, too.
          const message = `Failed to inspect image "": ${criErrorText(error)}`;
          emit("Warning", "InspectFailed", message);
          throw new StartError("ImageInspectError", message);
        });
  const entry = await store.read("backOffs", pullBackOffKey(uid, wanted));
  const decision = imageDecision({ policy, present: present !== undefined, entry, nowMs: clock.now() });
  switch (decision.kind) {
    case "present":
      if (present === undefined) throw new Error('imageDecision returned "present" for a missing image');
      emit("Normal", "Pulled", `Container image "${wanted}" already present on machine and can be accessed by the pod`);
      return present;
    case "never": {
      const message = `Container image "${wanted}" is not present with pull policy of Never`;
      emit("Warning", "ErrImageNeverPull", message);
      throw new StartError("ErrImageNeverPull", message);
    }
    case "backOff":
      emit("Normal", "BackOff", backOffMessage(wanted, undefined));
      throw new StartError("ImagePullBackOff", backOffMessage(wanted, entry?.cause), { retryAtMs: decision.untilMs });
    case "pull":
      return await pull(ports, pod, wanted, { emit, update });
    default:
      throw new Error(`unknown decision ${JSON.stringify(decision satisfies never)}`);
  }
}

function pullName(image: string): string {
  return `pull:${image}`;
}

/** Pulls the image as an operation of the pod. The operation includes the wait in the node's pull queue. */
async function pull(ports: EnsureImagePorts, pod: NodePod, wanted: string, { emit, update }: Ensuring): Promise<Image> {
  const { cri, clock, operations, puller } = ports;
  const { uid } = pod.metadata;
  const name = pullName(wanted);
  // Limits a pod to one pull at a time. Another pull can still be running when its container no longer needs it and this container is
  // next.
  const other = operations.names(uid).find((one) => one.startsWith("pull:") && one !== name);
  if (other !== undefined) throw new Pause(`image ${wanted} waits for ${other}`);
  return await operations.run({
    uid,
    name,
    pause: `image ${wanted} is being pulled`,
    abortable: true,
    act: async (signal) => {
      emit("Normal", "Pulling", `Pulling image "${wanted}"`);
      const fromMs = clock.now();
      const { value: image, pullMs } = await puller.pull(signal, async () => {
        await pullWithCredentials(ports, pod, imageRef(wanted), signal);
        return await cri.imageStatus({ image: imageRef(wanted) });
      });
      if (image === undefined) throw new Error(`image "${wanted}" is missing after the pull`);
      emit("Normal", "Pulled", pulledMessage(wanted, { pullMs, totalMs: clock.now() - fromMs, sizeBytes: image.sizeBytes }));
      return image;
    },
    orElse: async (error) => {
      const { cause, missing } = error instanceof PullWithoutSecretsError ? error : { cause: error, missing: [] };
      const text = pullErrorText(cause);
      const failure = pullFailure(wanted, text);
      const key = pullBackOffKey(uid, wanted);
      await update("backOffs", key, (before) => afterFailedPull(before, clock.now(), failure));
      emit("Warning", "Failed", `Failed to pull image "${wanted}": ${text}`);
      if (missing.length > 0) {
        const message = `Unable to retrieve some image pull secrets (${missing.join(", ")}); attempting to pull the image may not succeed.`;
        ports.podEvent(pod, { type: "Warning", reason: "FailedToRetrieveImagePullSecret", message });
      }
      throw new StartError(failure.reason, failure.message, { retryAtMs: clock.now() + BACK_OFF_REPORT_MS });
    },
  });
}

/**
 * A pull failed while some secrets of the pod were missing. A successful pull does not report missing secrets. Source:
 * pkg/kubelet/kubelet.go SyncPod.
 */
class PullWithoutSecretsError extends Error {
  override readonly name = "PullWithoutSecretsError";
  readonly missing: readonly string[];

  constructor(missing: readonly string[], cause: unknown) {
    super(`pull secrets are missing: ${missing.join(", ")}`, { cause });
    this.missing = missing;
  }
}

/**
 * Tries the pod's credentials, then the node's, until one works. Without credentials, pulls anonymously. @throws
 * {PullWithoutSecretsError}, or the runtime's error
 */
async function pullWithCredentials(
  ports: Pick<NodePorts, "cri" | "credentials" | "objects">,
  pod: NodePod,
  image: string,
  signal: AbortSignal,
): Promise<void> {
  const secrets: SecretData[] = [];
  const missing: string[] = [];
  for (const { name = "" } of pod.spec.imagePullSecrets ?? []) {
    if (name === "") continue;
    const secret = await ports.objects.get("secrets", pod.metadata.namespace, name);
    if (secret !== undefined) secrets.push(secret as SecretData); // the requested resource implies the type
    else missing.push(name);
  }
  try {
    await pullWithAny(ports.cri, image, [...pullCredentials(image, secrets), ...((await ports.credentials?.lookup(image)) ?? [])], signal);
  } catch (error) {
    signal.throwIfAborted();
    throw missing.length === 0 ? error : new PullWithoutSecretsError(missing, error);
  }
}

async function pullWithAny(cri: NodePorts["cri"], image: string, credentials: readonly AuthConfig[], signal: AbortSignal): Promise<void> {
  if (credentials.length === 0) return void (await cri.pullImage({ image }, { signal }));
  const failures: unknown[] = [];
  for (const auth of credentials) {
    try {
      return void (await cri.pullImage({ image }, { signal, auth }));
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
  }
  throw new Error(aggregateText(failures.map(pullErrorText)), { cause: failures.at(-1) });
}
