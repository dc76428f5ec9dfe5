/** Writes infra/manifests/rbac.yaml. Run it after a change of shared/controller/contract.ts: `node infra/manifests/generate.ts`. */
import { writeFileSync } from "node:fs";
import { rbacYaml } from "./rbac.ts";

writeFileSync(new URL("rbac.yaml", import.meta.url), rbacYaml());
