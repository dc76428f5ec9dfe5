/** An image on this machine, or the reason why it is not there yet (node-agent §8). */
import type { Image } from "../../ports/cri-types.ts";
import type { Fence } from "../../ports/node-store.ts";
import {
  afterFailedPull,
  defaultPullPolicy,
  imageDecision,
  imageRef,
  isImageNameValid,
  pullBackOffKey,
  pullCredentials,
} from "../actions/image-pull.ts";
import type { SecretData } from "../kuberuntime/environment.ts";
import type { NodePorts } from "../node-ports.ts";
import type { ContainerSpec, NodePod } from "../pod.ts";
import { podEvent } from "./pod-events.ts";
import { Pause, StartError } from "../operations.ts";
import { updateFenced } from "./workers.ts";
import { messageOf } from "../../api/errors.ts";

/** @throws {StartError} when it cannot be had now. @throws {Pause} when the pull outlives the turn */
export async function ensureImage(ports: NodePorts, pod: NodePod, container: ContainerSpec, fence: Fence): Promise<Image> {
  const { cri, store, clock } = ports;
  const wanted = container.image ?? "";
  const say = (type: "Normal" | "Warning", reason: string, message: string): void =>
    podEvent(ports, pod, { type, reason, message, container: container.name });
  if (!isImageNameValid(wanted)) {
    say(
      "Warning",
      "InspectFailed",
      `Failed to apply default image tag "${wanted}": couldn't parse image name "${wanted}": invalid reference format`,
    );
    throw new StartError(
      "InvalidImageName",
      `Failed to apply default image tag "${wanted}": couldn't parse image name "${wanted}": invalid reference format`,
    );
  }
  const image = { image: imageRef(wanted) };
  const present = await cri.imageStatus(image).catch((error: unknown) => {
    const message = `Failed to inspect image "${wanted}": ${messageOf(error)}`;
    say("Warning", "InspectFailed", message);
    throw new StartError("ImageInspectError", message);
  });
  const key = pullBackOffKey(pod.metadata.uid, wanted);
  const decision = imageDecision({
    policy: container.imagePullPolicy ?? defaultPullPolicy(wanted),
    present: present !== undefined,
    entry: await store.read("backOffs", key),
    nowMs: clock.now(),
  });
  switch (decision.kind) {
    case "present":
      if (present === undefined) throw new Error("an image that is not there was found present");
      say("Normal", "Pulled", `Container image "${wanted}" already present on machine and can be accessed by the pod`);
      return present;
    case "never":
      say("Warning", "ErrImageNeverPull", `Container image "${wanted}" is not present with pull policy of Never`);
      say("Warning", "Failed", "Error: ErrImageNeverPull");
      throw new StartError("ErrImageNeverPull", `Container image "${wanted}" is not present with pull policy of Never`);
    case "backOff": {
      const lastError = (await store.read("reasons", pod.metadata.uid))?.[container.name]?.message;
      say("Normal", "BackOff", `Back-off pulling image "${wanted}"`);
      say("Warning", "Failed", "Error: ImagePullBackOff");
      throw new StartError("ImagePullBackOff", backOffMessage(wanted, lastError), { retryAtMs: decision.untilMs });
    }
    case "pull":
      return await pull(ports, pod, container, { wanted, key, fence });
    default:
      throw new Error(`unknown decision ${JSON.stringify(decision satisfies never)}`);
  }
}

/** Upstream carries the last error along, so that whoever looks during a back-off sees why. */
function backOffMessage(image: string, lastMessage: string | undefined): string {
  const prefix = `Back-off pulling image "${image}"`;
  if (lastMessage === undefined) return prefix;
  return lastMessage.startsWith(prefix) ? lastMessage : `${prefix}: ErrImagePull: ${lastMessage}`;
}

async function pull(
  ports: NodePorts,
  pod: NodePod,
  container: ContainerSpec,
  { wanted, key, fence }: { readonly wanted: string; readonly key: string; readonly fence: Fence },
): Promise<Image> {
  const { cri, clock, operations } = ports;
  const { uid } = pod.metadata;
  const say = (type: "Normal" | "Warning", reason: string, message: string): void =>
    podEvent(ports, pod, { type, reason, message, container: container.name });
  const name = `pull:${wanted}`;
  // A container before one whose image is being pulled ended meanwhile: pulls of one pod follow each other.
  const other = operations.names(uid).find((one) => one.startsWith("pull:") && one !== name);
  if (other !== undefined) throw new Pause(`image ${wanted} waits for ${other}`);
  return await operations.run({
    uid,
    name,
    pause: `image ${wanted} is being pulled`,
    abortable: true,
    act: async (signal) => {
      say("Normal", "Pulling", `Pulling image "${wanted}"`);
      const fromMs = clock.now();
      await pullWithCredentials(ports, pod, imageRef(wanted), signal);
      const image = await cri.imageStatus({ image: imageRef(wanted) });
      if (image === undefined) throw new Error(`image "${wanted}" was pulled, and is not there`);
      const took = `${((clock.now() - fromMs) / 1000).toFixed(3)}s`;
      say(
        "Normal",
        "Pulled",
        `Successfully pulled image "${wanted}" in ${took} (${took} including waiting). Image size: ${image.sizeBytes} bytes.`,
      );
      return image;
    },
    orElse: async (error) => {
      const entry = await updateFenced(ports, "backOffs", key, (before) => afterFailedPull(before, clock.now()), fence);
      const message = messageOf(error);
      say("Warning", "Failed", `Failed to pull image "${wanted}": ${message}`);
      say("Warning", "Failed", "Error: ErrImagePull");
      throw new StartError("ErrImagePull", message, entry && { retryAtMs: entry.lastUpdateMs + entry.delayMs });
    },
  });
}

/** Each of the pod's credentials for the registry until one will do; without any, as everybody. A missing secret is only told. */
async function pullWithCredentials(ports: NodePorts, pod: NodePod, image: string, signal: AbortSignal): Promise<void> {
  const secrets: SecretData[] = [];
  for (const { name = "" } of pod.spec.imagePullSecrets ?? []) {
    const secret = await ports.objects.get("secrets", pod.metadata.namespace, name);
    if (secret !== undefined) secrets.push(secret as SecretData); // the resource asked for names the type
    else {
      const message = `Unable to retrieve some image pull secrets (${name}); attempting to pull the image may not succeed.`;
      podEvent(ports, pod, { type: "Warning", reason: "FailedToRetrieveImagePullSecret", message });
    }
  }
  const credentials = pullCredentials(image, secrets);
  let failure: unknown;
  for (const auth of credentials.length === 0 ? [undefined] : credentials) {
    try {
      await ports.cri.pullImage({ image }, { signal, ...(auth && { auth }) });
      return;
    } catch (error) {
      signal.throwIfAborted();
      failure = error;
    }
  }
  throw failure;
}
