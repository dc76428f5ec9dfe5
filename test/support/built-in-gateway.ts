import { createWriteGateway } from "../../shared/controllers/kit/write-gateway/write-gateway.ts";
import { gatewayContractOf } from "../../shared/controllers/registry/cache-of.ts";
import { REGISTRY } from "../../shared/controllers/registry/registry.ts";
import type { ControllerName } from "../../shared/kube/objects/resources.ts";

type Options = Parameters<typeof createWriteGateway>;

/** The write gateway that a function of the built-in controllers has. */
export function builtInGateway(writer: Options[0], controller: ControllerName, mode: Options[2]): ReturnType<typeof createWriteGateway> {
  return createWriteGateway(writer, controller, mode, gatewayContractOf(REGISTRY, controller));
}
