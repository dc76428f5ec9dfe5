/**
 * Cached statuses of running sandboxes and containers. While they run, only their state can change without a call of the agent, and every
 * list contains the state.
 *
 * KN1 the state comes from the caller's fresh list; a cached status is used only if both report running.
 * KN2 a sandbox without an address is not cached, except with host networking.
 * KN3 each change of container resources calls `forget`, which also discards the results of reads in progress.
 * KN4 entries that the latest full list, or the caller's list, does not show as running are dropped: Docker can restart a container,
 *   and a sandbox can get a new address.
 *
 * Source: pkg/kubelet/pleg/generic.go updateCache; upstream's syncs use the state of the last relist, too.
 */
import { isNotFound } from "../../ports/cri-error.ts";
import type { Cri } from "../../ports/cri.ts";
import type { Container, ContainerStatus, PodSandbox, PodSandboxStatus } from "../../ports/cri-types.ts";

export class KnownStatuses {
  readonly #cri: Pick<Cri, "podSandboxStatus" | "containerStatus">;
  readonly #sandboxes = new Map<string, PodSandboxStatus>();
  readonly #containers = new Map<string, ContainerStatus>();
  /** Number of `forget` calls so far. */
  #forgotten = 0;

  constructor(cri: Pick<Cri, "podSandboxStatus" | "containerStatus">) {
    this.#cri = cri;
  }

  /** Number of cached sandboxes and containers. */
  get size(): number {
    return this.#sandboxes.size + this.#containers.size;
  }

  /** @returns undefined if the sandbox no longer exists @throws {CriError} */
  async sandbox({ id, state }: PodSandbox): Promise<PodSandboxStatus | undefined> {
    if (state !== "SANDBOX_READY") this.#sandboxes.delete(id);
    const known = this.#sandboxes.get(id);
    if (known !== undefined) return known;
    const status = await present(this.#cri.podSandboxStatus(id));
    if (status?.state === "SANDBOX_READY" && hasAddress(status)) this.#sandboxes.set(id, status);
    return status;
  }

  /** @returns undefined if the container no longer exists @throws {CriError} */
  async container({ id, state }: Container): Promise<ContainerStatus | undefined> {
    if (state !== "CONTAINER_RUNNING") this.#containers.delete(id);
    const known = this.#containers.get(id);
    if (known !== undefined) return known;
    const before = this.#forgotten;
    const status = await present(this.#cri.containerStatus(id));
    if (status?.state === "CONTAINER_RUNNING" && before === this.#forgotten) this.#containers.set(id, status);
    return status;
  }

  /** Must be called when the container's resources may have changed. */
  forget(containerId: string): void {
    this.#forgotten++;
    this.#containers.delete(containerId);
  }

  /** @param isUp whether the latest full list shows this id as running */
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
