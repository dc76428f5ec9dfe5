/**
 * What sandboxes and containers that are up say of themselves. Of these only the state changes without our doing, and each list has it: the
 * rest is asked for once, not at every look of every turn.
 *
 * KN1 the state is that of the list which the caller has just read. A status is handed out once more where both say that it is up.
 * KN2 a sandbox without an address is asked again, unless it has the machine's.
 * KN3 who changes what a container may use says so (`forget`); what was asked for before is not kept then, also when it is answered later.
 * KN4 of what the last list of everything, or one that the caller has read, did not have as up nothing is kept: a container of Docker's may be
 *   started once more, and a sandbox come up with another address.
 *
 * Source: pkg/kubelet/pleg/generic.go updateCache: upstream's turns, too, go by what was read when a state last changed.
 */
import { isNotFound } from "../../ports/cri-error.ts";
import type { Cri } from "../../ports/cri.ts";
import type { Container, ContainerStatus, PodSandbox, PodSandboxStatus } from "../../ports/cri-types.ts";

export class KnownStatuses {
  readonly #cri: Pick<Cri, "podSandboxStatus" | "containerStatus">;
  readonly #sandboxes = new Map<string, PodSandboxStatus>();
  readonly #containers = new Map<string, ContainerStatus>();
  /** How often something was forgotten. */
  #forgotten = 0;

  constructor(cri: Pick<Cri, "podSandboxStatus" | "containerStatus">) {
    this.#cri = cri;
  }

  /** Sandboxes and containers that are known. */
  get size(): number {
    return this.#sandboxes.size + this.#containers.size;
  }

  /** @returns undefined where it is gone by now @throws {CriError} */
  async sandbox({ id, state }: PodSandbox): Promise<PodSandboxStatus | undefined> {
    if (state !== "SANDBOX_READY") this.#sandboxes.delete(id);
    const known = this.#sandboxes.get(id);
    if (known !== undefined) return known;
    const status = await present(this.#cri.podSandboxStatus(id));
    if (status?.state === "SANDBOX_READY" && hasAddress(status)) this.#sandboxes.set(id, status);
    return status;
  }

  /** @returns undefined where it is gone by now @throws {CriError} */
  async container({ id, state }: Container): Promise<ContainerStatus | undefined> {
    if (state !== "CONTAINER_RUNNING") this.#containers.delete(id);
    const known = this.#containers.get(id);
    if (known !== undefined) return known;
    const before = this.#forgotten;
    const status = await present(this.#cri.containerStatus(id));
    if (status?.state === "CONTAINER_RUNNING" && before === this.#forgotten) this.#containers.set(id, status);
    return status;
  }

  /** What this container may use has changed, or may have. */
  forget(containerId: string): void {
    this.#forgotten++;
    this.#containers.delete(containerId);
  }

  /** @param isUp whether the last list of everything has a sandbox or container of this id as up */
  keep(isUp: (id: string) => boolean): void {
    for (const known of [this.#sandboxes, this.#containers]) for (const id of known.keys()) if (!isUp(id)) known.delete(id);
  }
}

function hasAddress({ network, namespaceOptions }: PodSandboxStatus): boolean {
  return namespaceOptions?.network === "NODE" || (network !== undefined && network.ip !== "");
}

async function present<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
