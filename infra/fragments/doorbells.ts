import { logicalName } from "@deltaloop/controllers/registry";
import type { Registry } from "@deltaloop/controllers/registry";

/** Returns the doorbell queues as `[{ name: "deployment", logical: "Deployment" }, …]`. */
export function doorbells({ controllers, resources }: Registry): readonly { readonly name: string; readonly logical: string }[] {
  return controllers.map((entry) => ({ name: entry.name, logical: logicalName(entry, resources) }));
}
