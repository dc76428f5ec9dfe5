/**
 * Writes the files that are generated from the tables of controllers, metrics, variables and built-in kinds and from the commands' help. Run it
 * after a change of shared/controllers/registry, of a contract, of shared/base/metrics/metric-table.ts, of
 * shared/controllers/lambda/configuration-variables.ts, of an option, or of client-node: `node infra/generate.ts`.
 */
import { writeFileSync } from "node:fs";
import { REGISTRY } from "@deltaloop/controllers/registry";
import { cliDocuments } from "./cli-documents.ts";
import { configurationDocument } from "./configuration-document.ts";
import { fragments } from "./fragments.ts";
import { metricDocuments } from "./metric-documents.ts";
import { sdkKinds } from "./sdk-kinds.ts";

const DOCUMENTS = { ...fragments(REGISTRY), ...metricDocuments(), ...configurationDocument(), ...cliDocuments(), ...sdkKinds() };
for (const [path, text] of Object.entries(DOCUMENTS)) writeFileSync(new URL(path, import.meta.url), text);
