import { CONTROLLERS } from "@deltaloop/kube/objects";
import type { Store } from "@deltaloop/store/ports";

/** Why a controller's keys are not handed out yet; undefined if all gates are open. */
export async function shutGate(store: Pick<Store, "gate">): Promise<string | undefined> {
  const gates = await Promise.all(CONTROLLERS.map((controller) => store.gate(controller)));
  return gates.find((gate) => !gate.open)?.reason;
}
