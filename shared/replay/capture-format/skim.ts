/**
 * Skimmed lines: their objects are parsed only when they are read. A verdict needs only the newest recording of each object, about one line
 * in ten.
 *
 * SK1 only lines in the form that the recorder writes for redacted objects are skimmed. Every other line is parsed at once.
 * SK2 if a skimmed line cannot be parsed, it throws `SkimError`. The caller then reads the capture again and parses every line, so that a
 *     torn line is reported as usual. A recording that a newer one supersedes is never checked.
 * SK3 an identity shares no memory with its line.
 */
import { CACHED_RESOURCES, EVIDENCE_RESOURCES } from "@deltaloop/kube/objects";
import { parseAny } from "./capture.ts";
import type { AnyRecord, CapturedObject, ObjectIdentity } from "./capture.ts";
import type { RecordedResource } from "./recorded-resources.ts";

/** A skimmed line is not a valid record. */
export class SkimError extends Error {
  override readonly name = "SkimError";
}

const TIME = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z`;
const HEAD = new RegExp(
  String.raw`^\{"t":"(${TIME})",(?:"n":\d+,"m":\d+,)?"r":"([a-z]+)",(?:"k":"item"|"type":"(ADDED|MODIFIED|DELETED)"),"object":\{`,
);
const [NAME, UID, VERSION] = [String.raw`"([\w.:-]+)"`, String.raw`"([\w.-]+)"`, String.raw`"resourceVersion":"\d+"`];
/** Values of labels have neither braces nor escapes. */
const LABELS = String.raw`(?:,"labels":\{[^{}\\]*\})?`;
const POD = new RegExp(
  `"namespace":${NAME},"name":${NAME},"uid":${UID},${VERSION}${LABELS}(?:,"owner":\\{"kind":"\\w+","name":"[\\w.-]+","uid":${UID}\\})?,"creationTimestamp":(?:"${TIME}",("deletionTimestamp"))?`,
  "y",
);
const OWNER = new RegExp(
  `"metadata":\\{"name":${NAME},"namespace":${NAME},"uid":${UID},${VERSION},"generation":(\\d+),"creationTimestamp":"${TIME}"` +
    `(?:,"deletionTimestamp":"${TIME}","deletionGracePeriodSeconds":\\d+)?${LABELS}` +
    `(?:,"ownerReferences":\\[\\{"apiVersion":"[\\w./]+","kind":"\\w+","name":"[\\w.-]+","uid":${UID},"controller":true(?:,"blockOwnerDeletion":true)?\\}\\])?` +
    `(?:\\}|,"(?:finalizers|annotations|annotationDigests)":)`,
  "y",
);
const AVAILABLE_KEY = '"availableReplicas":';
const AVAILABLE = new RegExp(`${AVAILABLE_KEY}(\\d+)`, "y");
const OTHER = new RegExp(`"kind":"\\w+","metadata":\\{"name":${NAME},"uid":${UID},${VERSION}(?:,"namespace":${NAME})?\\}`, "y");
/** If this is within a line, the line was cut off and the next one follows without a line feed. */
const NEXT_LINE = '{"t":"20';
/** Bounds the interned strings. */
const INTERNED_MAX = 20_000;

export class Skimmer {
  #interned = new Map<string, string>();

  /** Undefined: not in the recorder's form (SK1). */
  skim(text: string): AnyRecord | undefined {
    const head = HEAD.exec(text);
    if (head === null || !text.endsWith("}}") || text.includes(NEXT_LINE, 1)) return undefined;
    const [{ length }, time = "", r, type] = head;
    const atMs = Date.parse(time);
    const [resource, other] = [CACHED_RESOURCES.find((each) => each === r), EVIDENCE_RESOURCES.find((each) => each === r)];
    const line = { text, atMs, type };
    if (resource === "pods") {
      const [found, namespace = "", name = "", uid = "", owner, deletion] = matchAt(POD, text, length);
      if (found === undefined) return undefined;
      const isDeleted = deletion !== undefined && { isDeleted: true as const };
      return new Skimmed(resource, line, { ...this.#identity(`${namespace}/${name}`, uid, owner), ...isDeleted });
    }
    if (resource !== undefined) {
      const [found, name = "", namespace = "", uid = "", generation, owner] = matchAt(OWNER, text, length);
      if (found === undefined) return undefined;
      const available = Number(matchAt(AVAILABLE, text, Math.max(0, text.indexOf(AVAILABLE_KEY, length)))[1] ?? 0);
      return new Skimmed(resource, line, {
        ...this.#identity(`${namespace}/${name}`, uid, owner),
        generation: Number(generation),
        available,
      });
    }
    if (other === undefined) return undefined;
    const [found, name = "", uid = "", namespace] = matchAt(OTHER, text, length);
    return found === undefined ? undefined : new Skimmed(other, line, this.#identity(`${String(namespace)}/${name}`, uid, undefined));
  }

  #identity(key: string, uid: string, ownerUid: string | undefined): ObjectIdentity {
    return { key: this.#own(key), uid: this.#own(uid), ...(ownerUid !== undefined && { ownerUid: this.#own(ownerUid) }) };
  }

  /** SK3: V8 keeps a whole line as long as a part of it is referenced. */
  #own(part: string): string {
    const known = this.#interned.get(part);
    if (known !== undefined) return known;
    if (this.#interned.size >= INTERNED_MAX) this.#interned = new Map();
    const own = Buffer.from(part).toString();
    this.#interned.set(own, own);
    return own;
  }
}

const NO_MATCH: readonly (string | undefined)[] = [];

function matchAt(pattern: RegExp, text: string, start: number): readonly (string | undefined)[] {
  pattern.lastIndex = start;
  return pattern.exec(text) ?? NO_MATCH;
}

interface Line {
  readonly text: string;
  readonly atMs: number;
  readonly type: string | undefined;
}

/** A record whose line is parsed each time that its object or evidence is read. */
class Skimmed<R extends RecordedResource> {
  readonly resource: R;
  readonly atMs: number;
  readonly kind: "item" | "event";
  readonly type?: string;
  readonly identity: ObjectIdentity;
  readonly #text: string;

  constructor(resource: R, { text, atMs, type }: Line, identity: ObjectIdentity) {
    [this.resource, this.atMs, this.identity, this.kind] = [resource, atMs, identity, type === undefined ? "item" : "event"];
    if (type !== undefined) this.type = type;
    this.#text = text;
  }

  get object(): CapturedObject {
    return this.read().object;
  }

  get evidence(): CapturedObject | undefined {
    return this.read().evidence;
  }

  /** Parses the line. The result is not cached: it takes five times the memory of the text. */
  read(): { readonly object: CapturedObject; readonly evidence: CapturedObject | undefined } {
    let record: AnyRecord | undefined;
    try {
      record = parseAny(this.#text);
    } catch (error) {
      throw new SkimError("not a record", { cause: error });
    }
    if (record?.object === undefined) throw new SkimError("a record without an object");
    return { object: record.object, evidence: "evidence" in record ? record.evidence : undefined };
  }
}
