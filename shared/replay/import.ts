export { auditEventsIn, importFiles } from "./import/import.ts";
export { captureLines } from "./import/imported.ts";
export type { Imported } from "./import/imported.ts";
export { ImportReport } from "./import/report.ts";
