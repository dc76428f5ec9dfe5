/**
 * Writes what is made of the tables of controllers and of metrics. Run it after a change of shared/controllers/registry, of a contract, or of
 * shared/base/metrics/metric-table.ts: `node infra/generate.ts`.
 */
import { writeFileSync } from "node:fs";
import { REGISTRY } from "@deltaloop/controllers/registry";
import { fragments } from "./fragments.ts";
import { metricDocuments } from "./metric-documents.ts";

for (const [path, text] of Object.entries({ ...fragments(REGISTRY), ...metricDocuments() }))
  writeFileSync(new URL(path, import.meta.url), text);
