/** Foreign recordings, told apart by what stands in them, as captures that `deltaloop replay` takes. */
import { CaptureError, isZip, readUnpacked } from "../capture.ts";
import { importAudit, isAuditEvent } from "./audit.ts";
import type { Imported } from "./imported.ts";
import { jsonValues } from "./json-values.ts";
import type { JsonValue } from "./json-values.ts";
import { importKshrk } from "./kshrk.ts";
import type { ImportReport } from "./report.ts";
import { importWatch } from "./watch.ts";

/** @throws {CaptureError} when a file is none of the formats, or not whole enough, or too large; {Error} when it cannot be read */
export async function importFiles(paths: readonly string[], report: ImportReport): Promise<Imported> {
  const files = paths.map((path) => ({ path, bytes: readUnpacked(path) }));
  const archive = files.find(({ bytes }) => isZip(bytes));
  if (archive && files.length > 1) throw new CaptureError(`${archive.path}: a .kshrk archive is imported alone`);
  const imported = archive ? await importKshrk(archive.bytes, archive.path, report) : importJson(files, report);
  if (imported.events.length === 0 && [...imported.lists.values()].every(({ items }) => items.length === 0))
    throw new CaptureError(`${paths.join(", ")}: no event of a watched resource in it`);
  return imported;
}

function importJson(files: readonly { readonly path: string; readonly bytes: Buffer }[], report: ImportReport): Imported {
  const torn = (): void => report.lost("a last value that has no end: whoever wrote it was interrupted");
  const [first] = files.map(({ path, bytes }) => jsonValues(bytes, path, () => undefined).next().value);
  const all = function* (): Generator<JsonValue> {
    for (const { path, bytes } of files) yield* jsonValues(bytes, path, torn);
  };
  return isAuditEvent(first?.value ?? {}) ? importAudit(all(), report) : importWatch(all(), report);
}
