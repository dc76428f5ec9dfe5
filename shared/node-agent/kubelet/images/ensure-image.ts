/** An image on this machine, or the reason why it is not there yet (node-agent §8). */
import type { Image } from "../../ports/cri-types.ts";
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
 * So long after a pull has failed the pod is looked at again and says that it backs off: people and their tools wait for that word.
 * Upstream's relist brings that look after the first failure, its 10 to 15 s after a later one.
 */
const BACK_OFF_SAID_MS = 1_000;

type Say = (type: "Normal" | "Warning", reason: string, message: string) => void;

/** @throws {StartError} when it cannot be had now. @throws {Pause} when the pull outlives the turn */
export async function ensureImage(ports: EnsureImagePorts, pod: NodePod, container: ContainerSpec, update: FencedUpdate): Promise<Image> {
  const say: Say = (type, reason, message) => ports.podEvent(pod, { type, reason, message, container: container.name });
  try {
    return await ensured(ports, pod, container, { say, update });
  } catch (error) {
    if (error instanceof StartError) say("Warning", "Failed", `Error: ${error.reason}`);
    throw error;
  }
}

interface Ensuring {
  readonly say: Say;
  readonly update: FencedUpdate;
}

async function ensured(ports: EnsureImagePorts, pod: NodePod, container: ContainerSpec, { say, update }: Ensuring): Promise<Image> {
  const { cri, store, clock, operations } = ports;
  const { uid } = pod.metadata;
  const wanted = container.image ?? "";
  const mistake = imageNameMistake(wanted);
  if (mistake !== undefined) {
    const message = `Failed to apply default image tag "${wanted}": couldn't parse image name "${wanted}": ${mistake}`;
    say("Warning", "InspectFailed", message);
    throw new StartError("InvalidImageName", message);
  }
  // What is being pulled, or was since the last turn, has been decided on.
  if (operations.has(uid, pullName(wanted))) return await pull(ports, pod, wanted, { say, update });
  const policy = container.imagePullPolicy ?? defaultPullPolicy(wanted);
  const present =
    policy === "Always"
      ? undefined
      : await cri.imageStatus({ image: imageRef(wanted) }).catch((error: unknown) => {
          // Upstream, too, names the id that it did not get.
          const message = `Failed to inspect image "": ${criErrorText(error)}`;
          say("Warning", "InspectFailed", message);
          throw new StartError("ImageInspectError", message);
        });
  const entry = await store.read("backOffs", pullBackOffKey(uid, wanted));
  const decision = imageDecision({ policy, present: present !== undefined, entry, nowMs: clock.now() });
  switch (decision.kind) {
    case "present":
      if (present === undefined) throw new Error("an image that is not there was found present");
      say("Normal", "Pulled", `Container image "${wanted}" already present on machine and can be accessed by the pod`);
      return present;
    case "never": {
      const message = `Container image "${wanted}" is not present with pull policy of Never`;
      say("Warning", "ErrImageNeverPull", message);
      throw new StartError("ErrImageNeverPull", message);
    }
    case "backOff":
      say("Normal", "BackOff", backOffMessage(wanted, undefined));
      throw new StartError("ImagePullBackOff", backOffMessage(wanted, entry?.cause), { retryAtMs: decision.untilMs });
    case "pull":
      return await pull(ports, pod, wanted, { say, update });
    default:
      throw new Error(`unknown decision ${JSON.stringify(decision satisfies never)}`);
  }
}

function pullName(image: string): string {
  return `pull:${image}`;
}

/** It waits for its turn among the node's pulls as an operation of its pod, so that no turn has to. */
async function pull(ports: EnsureImagePorts, pod: NodePod, wanted: string, { say, update }: Ensuring): Promise<Image> {
  const { cri, clock, operations, puller } = ports;
  const { uid } = pod.metadata;
  const name = pullName(wanted);
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
      const { value: image, pullMs } = await puller.pull(signal, async () => {
        await pullWithCredentials(ports, pod, imageRef(wanted), signal);
        return await cri.imageStatus({ image: imageRef(wanted) });
      });
      if (image === undefined) throw new Error(`image "${wanted}" was pulled, and is not there`);
      say("Normal", "Pulled", pulledMessage(wanted, { pullMs, totalMs: clock.now() - fromMs, sizeBytes: image.sizeBytes }));
      return image;
    },
    orElse: async (error) => {
      const text = pullErrorText(error);
      const failure = pullFailure(wanted, text);
      const key = pullBackOffKey(uid, wanted);
      await update("backOffs", key, (before) => afterFailedPull(before, clock.now(), failure));
      say("Warning", "Failed", `Failed to pull image "${wanted}": ${text}`);
      throw new StartError(failure.reason, failure.message, { retryAtMs: clock.now() + BACK_OFF_SAID_MS });
    },
  });
}

/** Each of the pod's credentials for the registry, then of the node's, until one will do; without any, as everybody. A missing secret is only told. */
async function pullWithCredentials(
  ports: Pick<NodePorts, "cri" | "credentials" | "objects" | "podEvent">,
  pod: NodePod,
  image: string,
  signal: AbortSignal,
): Promise<void> {
  const secrets: SecretData[] = [];
  for (const { name = "" } of pod.spec.imagePullSecrets ?? []) {
    const secret = await ports.objects.get("secrets", pod.metadata.namespace, name);
    if (secret !== undefined) secrets.push(secret as SecretData); // the resource asked for names the type
    else {
      const message = `Unable to retrieve some image pull secrets (${name}); attempting to pull the image may not succeed.`;
      ports.podEvent(pod, { type: "Warning", reason: "FailedToRetrieveImagePullSecret", message });
    }
  }
  const credentials = [...pullCredentials(image, secrets), ...((await ports.credentials?.lookup(image)) ?? [])];
  if (credentials.length === 0) return void (await ports.cri.pullImage({ image }, { signal }));
  const failures: unknown[] = [];
  for (const auth of credentials) {
    try {
      return void (await ports.cri.pullImage({ image }, { signal, auth }));
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
  }
  throw new Error(aggregateText(failures.map(pullErrorText)), { cause: failures.at(-1) });
}
