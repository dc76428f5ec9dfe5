/**
 * Temporary storage for imported objects, whose order is known only after all were read. They are in an unlinked file, which no other
 * process can open and which disappears with the process.
 */
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exactText, parseExact } from "@deltaloop/base";
import { CaptureError } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";
import type { RecordedResource } from "../capture-format/recorded-resources.ts";
import { placeOf, versionOf } from "./imported.ts";
import type { ImportedEvent } from "./imported.ts";

/** An object that is read on demand, with its frequently used fields. */
export interface Kept {
  readonly object: CapturedObject;
  readonly place: string;
  readonly version: string;
}

/** Limit of objects, because a few hundred bytes of each object stay in memory. */
const OBJECTS_MAX = 1_000_000;

export class Spool {
  readonly #file: number;
  /** Interned texts: an object has many versions, and a user many writes. */
  readonly #texts = new Map<string, string>();
  #end = 0;
  #count = 0;

  constructor() {
    const folder = mkdtempSync(join(tmpdir(), "deltaloop-import-"));
    this.#file = openSync(join(folder, "objects"), "wx+", 0o600);
    rmSync(folder, { recursive: true });
  }

  /** @throws {CaptureError} beyond OBJECTS_MAX; {Error} when the disk is full */
  keep(resource: RecordedResource, object: CapturedObject): Kept {
    if (++this.#count > OBJECTS_MAX)
      throw new CaptureError(`the input has more than ${OBJECTS_MAX} objects; import it in several parts, one hour each`);
    const bytes = Buffer.from(exactText(object));
    for (let written = 0; written < bytes.length;)
      written += writeSync(this.#file, bytes, written, bytes.length - written, this.#end + written);
    const kept = new Lying(this.#file, this.#end, bytes.length, {
      place: this.one(placeOf(resource, object)),
      version: versionOf(object),
    });
    this.#end += bytes.length;
    return kept;
  }

  /** Returns the interned copy of a text. */
  one(text: string): string {
    const known = this.#texts.get(text);
    if (known === undefined) this.#texts.set(text, text);
    return known ?? text;
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** An event whose object is read on demand. */
export function eventOf(kept: Kept, fields: Omit<ImportedEvent, "object">): ImportedEvent {
  return new KeptEvent(kept, fields);
}

/** A class instead of closures: there is an instance per event, and its methods are shared. */
class KeptEvent implements ImportedEvent {
  readonly #kept: Kept;
  readonly atMs: number;
  readonly resource: RecordedResource;
  readonly type: ImportedEvent["type"];
  readonly by?: string;

  constructor(kept: Kept, { atMs, resource, type, by }: Omit<ImportedEvent, "object">) {
    [this.#kept, this.atMs, this.resource, this.type] = [kept, atMs, resource, type];
    if (by !== undefined) this.by = by;
  }

  get object(): CapturedObject {
    return this.#kept.object;
  }
}

class Lying implements Kept {
  readonly #file: number;
  readonly #start: number;
  readonly #length: number;
  readonly place: string;
  readonly version: string;

  constructor(file: number, start: number, length: number, { place, version }: Pick<Kept, "place" | "version">) {
    [this.#file, this.#start, this.#length, this.place, this.version] = [file, start, length, place, version];
  }

  get object(): CapturedObject {
    const bytes = Buffer.allocUnsafe(this.#length);
    for (let read = 0; read < bytes.length;) {
      const count = readSync(this.#file, bytes, read, bytes.length - read, this.#start + read);
      if (count === 0) throw new Error("the temporary file of an import was truncated");
      read += count;
    }
    return parseExact(bytes.toString()) as CapturedObject; // as stored
  }
}
