/** Writes what is made of the table of controllers. Run it after a change of shared/registry or of a contract: `node infra/generate.ts`. */
import { writeFileSync } from "node:fs";
import { REGISTRY } from "../shared/registry/registry.ts";
import { fragments } from "./fragments.ts";

for (const [path, text] of Object.entries(fragments(REGISTRY))) writeFileSync(new URL(path, import.meta.url), text);
