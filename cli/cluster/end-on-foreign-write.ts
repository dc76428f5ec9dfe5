/** The guard of `dev --act`: it ends the process, because a user watches it, instead of stopping writes until `deltaloop resume` (informer §11.9). */
import { CONTROLLERS, RESOURCES } from "@deltaloop/kube/objects";
import { claimOf, createInquiry } from "@deltaloop/controllers/cache";
import type { ForeignWriteGuard, InquiryPorts } from "@deltaloop/controllers/cache";
import type { ForeignWrite } from "@deltaloop/store/ports";

/** Exit code of a process that this guard has ended. */
export const EXIT_UPSTREAM_ACTIVE = 3;

/** Another controller writes to the same objects. The user must stop one of the two controllers. */
export class UpstreamActiveError extends Error {
  override readonly name = "UpstreamActiveError";
}

/** Calls `found` once for each write by another controller. */
export function endOnForeignWrite(ports: InquiryPorts, found: (error: UpstreamActiveError) => void): ForeignWriteGuard {
  let beginningMs = Infinity;
  const inquiry = createInquiry(ports, (write) => found(new UpstreamActiveError(wordsOf(write))));
  return {
    begin: (nowMs) => void (beginningMs = nowMs),
    look(resource, object) {
      const claim = claimOf(resource, object, beginningMs);
      if (claim) inquiry.ask(claim);
      return undefined;
    },
    beforeTerm: () => Promise.resolve(),
    run: (signal) => inquiry.run(signal),
  };
}

function wordsOf({ resource, key, manager, atMs }: ForeignWrite): string {
  return (
    `${manager} wrote the status of ${RESOURCES[resource].kind} ${key} at ${new Date(atMs).toISOString()}: the cluster's kube-controller-manager runs the same controllers. ` +
    `Start kube-controller-manager with ${SWITCH_OFF}, or use shadow mode`
  );
}

/** The flag of kube-controller-manager that turns upstream's controllers off. */
export const SWITCH_OFF = `--controllers=*,${CONTROLLERS.map((controller) => `-${controller}-controller`).join()}`;
