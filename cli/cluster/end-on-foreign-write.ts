/** `dev --act`: whoever started it sits before it, so the guard ends the process instead of stopping it until somebody resumes (informer §11.9). */
import { CONTROLLERS, RESOURCES } from "@deltaloop/kube/objects";
import { claimOf, createInquiry } from "@deltaloop/controllers/cache";
import type { ForeignWriteGuard, InquiryPorts } from "@deltaloop/controllers/cache";
import type { ForeignWrite } from "@deltaloop/store/ports";

/** Two controllers on one object fight. Somebody sees to the other one. */
export class UpstreamActiveError extends Error {
  override readonly name = "UpstreamActiveError";
}

/** `found` is called once for each write. */
export function endOnForeignWrite(ports: InquiryPorts, found: (error: UpstreamActiveError) => void): ForeignWriteGuard {
  let beginningMs = Infinity;
  const inquiry = createInquiry(ports, (write) => found(new UpstreamActiveError(wordsOf(write))));
  return {
    begin: (nowMs) => void (beginningMs = nowMs),
    look(resource, object) {
      const claim = claimOf(resource, object, beginningMs);
      if (claim) inquiry.ask(claim);
    },
    beforeTerm: () => Promise.resolve(),
    run: (signal) => inquiry.run(signal),
  };
}

function wordsOf({ resource, key, manager, atMs }: ForeignWrite): string {
  return (
    `${RESOURCES[resource].kind} ${key} had its status written by ${manager} at ${new Date(atMs).toISOString()}: the cluster runs these loops itself. ` +
    `Start it with ${SWITCH_OFF}, or stay in shadow`
  );
}

/** How upstream's loops are switched off, where that is one's own to do. */
export const SWITCH_OFF = `--controllers=*,${CONTROLLERS.map((controller) => `-${controller}-controller`).join()}`;
