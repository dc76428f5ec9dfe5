/**
 * Writes the files that are generated from the tables of controllers and of metrics and from the commands' help. Run it after a change of
 * shared/controllers/registry, of a contract, of shared/base/metrics/metric-table.ts, or of an option: `node infra/generate.ts`.
 */
import { writeFileSync } from "node:fs";
import { REGISTRY } from "@deltaloop/controllers/registry";
import { cliDocuments } from "./cli-documents.ts";
import { fragments } from "./fragments.ts";
import { metricDocuments } from "./metric-documents.ts";

for (const [path, text] of Object.entries({ ...fragments(REGISTRY), ...metricDocuments(), ...cliDocuments() }))
  writeFileSync(new URL(path, import.meta.url), text);
