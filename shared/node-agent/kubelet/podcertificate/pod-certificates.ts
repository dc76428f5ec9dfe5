/**
 * Keys and certificates of podCertificate sources, in memory only: a restarted agent requests new ones, as upstream's kubelet does. Each
 * preparation of a volume advances its sources by one step, so a pod without such sources causes no request.
 *
 * PC1 a private key leaves this class only for the pod's tmpfs.
 * PC2 one step per source at a time.
 * PC3 a deleted pod's keys are dropped (`forget`).
 *
 * Source: pkg/kubelet/podcertificate/podcertificatemanager.go IssuingManager.
 */
import { messageOf } from "@deltaloop/kube/objects";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { NodePod } from "../types/pod.ts";
import { VolumeError } from "../types/volume-error.ts";
import { isExternalError } from "../node-ports/external-error.ts";
import { nextAct, reportLate, requestCreated, requestRead } from "./credential.ts";
import type { CertificateAnswer, Credential, Pending, PendingRequest, Step } from "./credential.ts";
import type { CertificateSource, KeyAndChain } from "../types/projected-sources.ts";
import { generateKeyAndProof } from "./key-and-proof.ts";

type Ports = Pick<NodePorts, "kube" | "clock" | "random" | "log" | "podEvent" | "condition" | "options">;

interface Held {
  credential: Credential;
  /** The running step (PC2), and why it failed. */
  step?: Promise<string | undefined> | undefined;
}

const RESOURCE = "podcertificaterequests";

export class PodCertificates {
  readonly #ports: Ports;
  /** The certificates by pod UID, then by volume and index. */
  readonly #held = new Map<string, Map<string, Held>>();

  constructor(ports: Ports) {
    this.#ports = ports;
  }

  /** The current key and certificates. @throws {VolumeError} while there are none, and permanently once the request was denied */
  async current(pod: NodePod, from: CertificateSource): Promise<KeyAndChain> {
    const held = this.#heldOf(pod, from);
    held.step ??= this.#step(pod, from, held).finally(() => (held.step = undefined));
    const failure = await held.step;
    const { credential } = held;
    if ("issued" in credential) return credential.issued;
    if (credential.kind === "Refused") throw new VolumeError(credential.message);
    throw new VolumeError(`credential bundle is not issued yet${failure === undefined ? "" : `: ${failure}`}`);
  }

  forget(podUid: string): void {
    this.#held.delete(podUid);
  }

  #heldOf({ metadata: { uid } }: NodePod, { volume, index }: CertificateSource): Held {
    let sources = this.#held.get(uid);
    if (sources === undefined) this.#held.set(uid, (sources = new Map()));
    const key = `${volume}/${index}`;
    let held = sources.get(key);
    if (held === undefined) sources.set(key, (held = { credential: { kind: "Initial" } }));
    return held;
  }

  async #step(pod: NodePod, from: CertificateSource, held: Held): Promise<string | undefined> {
    const { clock, log, podEvent } = this.#ports;
    const { namespace, name } = pod.metadata;
    let failure: string | undefined;
    try {
      held.credential = await this.#act(pod, from, held.credential);
    } catch (error) {
      if (!(error instanceof VolumeError)) throw error;
      failure = error.message;
      const { signerName } = from.source;
      log.warn("pod certificate request failed, retrying", { pod: `${namespace}/${name}`, signer: signerName, error: failure });
    }
    const { credential, events } = reportLate(held.credential, clock.now());
    held.credential = credential;
    for (const event of events) podEvent(pod, event);
    return failure;
  }

  async #act(pod: NodePod, { source }: CertificateSource, credential: Credential): Promise<Credential> {
    const { clock, podEvent } = this.#ports;
    switch (nextAct(credential, clock.now())) {
      case "create":
        return requestCreated(credential, await this.#create(pod, source, credential.kind === "Initial" ? "initial" : "refresh"));
      case "read": {
        if (!("request" in credential)) return credential;
        const { credential: next, events } = await this.#read(pod, credential);
        for (const event of events) podEvent(pod, event);
        return next;
      }
      default:
        return credential;
    }
  }

  async #read(pod: NodePod, credential: Pending): Promise<Step> {
    const { kube, random, log } = this.#ports;
    const { namespace } = pod.metadata;
    const { name } = credential.request;
    const answer = await prefixed(`while getting PodCertificateRequest "${namespace}/${name}"`, () => kube.get(RESOURCE, namespace, name));
    if (answer === undefined) log.warn("pod certificate request was deleted, creating another", { request: `${namespace}/${name}` });
    return requestRead(credential, answer as CertificateAnswer | undefined, random.next()); // the requested resource implies the type
  }

  async #create(pod: NodePod, source: CertificateSource["source"], which: "initial" | "refresh"): Promise<PendingRequest> {
    const { kube, condition, options } = this.#ports;
    const { namespace, name, uid } = pod.metadata;
    const { nodeName } = options;
    const { signerName, keyType, maxExpirationSeconds, userAnnotations } = source;
    const serviceAccountName = pod.spec.serviceAccountName ?? "default";
    const serviceAccountUid = await prefixed("while fetching service account", async () => {
      const found = await kube.get("serviceaccounts", namespace, serviceAccountName);
      if (found === undefined) throw new VolumeError(`serviceaccounts "${serviceAccountName}" not found`);
      return found.metadata.uid;
    });
    const { nodeUid } = condition;
    if (nodeUid === undefined) throw new VolumeError(`while getting node object from local cache: node "${nodeName}" not found`);
    return await prefixed(`while creating ${which} PodCertificateRequest`, async () => {
      const { privateKey, proof } = await generateKeyAndProof(keyType);
      const body = {
        apiVersion: "certificates.k8s.io/v1",
        kind: "PodCertificateRequest",
        metadata: { namespace, generateName: "req-", ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid }] },
        spec: {
          ...{ signerName, podName: name, podUID: uid, serviceAccountName, serviceAccountUID: serviceAccountUid },
          ...{ nodeName, nodeUID: nodeUid, stubPKCS10Request: proof.toString("base64") },
          ...(maxExpirationSeconds !== undefined && { maxExpirationSeconds }),
          ...(userAnnotations !== undefined && { unverifiedUserAnnotations: userAnnotations }),
        },
      };
      const created = await kube.create({ resource: RESOURCE, namespace, body });
      return { name: created.metadata.name, privateKey };
    });
  }
}

/** @throws {VolumeError} with `prefix` for errors that users or time resolve */
async function prefixed<T>(prefix: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof VolumeError || isExternalError(error))) throw error;
    throw new VolumeError(`${prefix}: ${messageOf(error)}`, { cause: error });
  }
}
