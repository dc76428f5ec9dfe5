import { logicalName } from "../../shared/registry/names.ts";
import type { Registry } from "../../shared/registry/registry.ts";

/** `[{ name: "deployment", logical: "Deployment" }, …]` */
export function doorbells({ controllers, resources }: Registry): readonly { readonly name: string; readonly logical: string }[] {
  return controllers.map((entry) => ({ name: entry.name, logical: logicalName(entry, resources) }));
}
