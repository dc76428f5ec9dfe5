import { CONTROLLERS } from "@deltaloop/kube/objects";
import type { ControllerName } from "@deltaloop/kube/objects";
import type { Store } from "@deltaloop/store/ports";

/** Why a controller's keys are not handed out yet; undefined if all gates are open. */
export async function shutGate(
  store: Pick<Store, "gate">,
  controllers: readonly ControllerName[] = CONTROLLERS,
): Promise<string | undefined> {
  const gates = await Promise.all(controllers.map((controller) => store.gate(controller)));
  return gates.find((gate) => !gate.open)?.reason;
}
