/** Converts recordings of other programs, detected by content, to captures for `deltaloop replay`. */
import { CaptureError, isGzip, isZip, readUnpacked } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";
import { CutOffError, openBytes } from "../capture-format/line-stream.ts";
import type { ByteSource } from "../capture-format/line-stream.ts";
import { importAudit } from "./audit.ts";
import { auditEventsOf, isLogRecord, isAuditEvent } from "./audit-envelope.ts";
import type { Imported } from "./imported.ts";
import { streamedValues } from "./json-values.ts";
import type { JsonValue, Tear } from "./json-values.ts";
import { importKshrk } from "./kshrk.ts";
import { importQueue, isQueueMessages } from "./queue.ts";
import type { ImportReport } from "./report.ts";
import { Spool } from "./spool.ts";
import { importWatch } from "./watch.ts";

/** Limit of unpacked data, which 16 MiB of highly compressible data can reach. */
const UNPACKED_BYTES_MAX = 16 * 2 ** 30;
const GIB = 2 ** 30;

const TORN: Readonly<Record<Tear, string>> = {
  end: "a truncated last value: its writer was interrupted",
  line: "a truncated line, as after a rotation, a crash or a full disk",
};

interface Source {
  readonly path: string;
  readonly bytes: ByteSource;
}

/** @throws {CaptureError} when a file has an unknown format, is incomplete or too large; {Error} when it cannot be read */
export async function importFiles(paths: readonly string[], report: ImportReport): Promise<Imported> {
  const files: Source[] = [];
  try {
    for (const path of paths) files.push({ path, bytes: openBytes(path, () => undefined) });
    const archive = files.find(({ bytes }) => isZip(bytes.head));
    if (archive && files.length > 1) throw new CaptureError(`${archive.path}: a .kshrk archive must be the only input`);
    const imported = archive ? await importKshrk(readUnpacked(archive.path), archive.path, report) : await importJson(files, report);
    if (imported.events.length === 0 && [...imported.lists.values()].every(({ items }) => items.length === 0))
      throw new CaptureError(`${paths.join(", ")}: found no event of a watched resource`);
    return imported;
  } finally {
    for (const { bytes } of files) bytes.close();
  }
}

/** The events of an audit log, also those of log services. Reports what it lost. @throws {CaptureError} as `streamedValues` */
export async function* auditEventsIn(chunks: AsyncIterable<Buffer>, path: string, report: ImportReport): AsyncGenerator<CapturedObject> {
  for await (const { value } of streamedValues(chunks, path, (tear) => report.lost(TORN[tear]))) yield* auditEventsOf(value, report);
}

async function importJson(files: readonly Source[], report: ImportReport): Promise<Imported> {
  for (const { bytes } of files) await findEnd(bytes);
  const torn = (tear: Tear): void => report.lost(TORN[tear]);
  const all = async function* (): AsyncGenerator<JsonValue> {
    for (const { path, bytes } of files) yield* streamedValues(bounded(bytes.chunks(), path), path, torn);
  };
  const values = all();
  const first = await values.next();
  // Prepends the first value, which was read to detect the format, because the file cannot be read twice.
  const whole = async function* (): AsyncGenerator<JsonValue> {
    if (first.done === true) return;
    yield first.value;
    yield* values;
  };
  const spool = new Spool();
  const head = first.done === true ? {} : first.value.value;
  if (isQueueMessages(head)) return importQueue(whole(), spool, report);
  return isAuditEvent(head) || isLogRecord(head) ? importAudit(whole(), spool, report) : importWatch(whole(), spool, report);
}

/** Reads compressed data once, so that a truncation is known before the actual import. */
async function findEnd(bytes: ByteSource): Promise<void> {
  if (!isGzip(bytes.head)) return;
  try {
    for await (const _ of bytes.chunks());
  } catch (error) {
    if (!(error instanceof CutOffError)) throw error;
  }
}

async function* bounded(chunks: AsyncIterable<Buffer>, path: string): AsyncGenerator<Buffer> {
  let total = 0;
  for await (const chunk of chunks) {
    total += chunk.length;
    if (total > UNPACKED_BYTES_MAX) throw new CaptureError(`${path}: file contains more than ${UNPACKED_BYTES_MAX / GIB} GiB unpacked`);
    yield chunk;
  }
}
