/**
 * How a Store shortens what user controllers store (rows, last-write records, uids): frequent parts become control characters, which JSON
 * escapes. Deflate with a dictionary makes rows as short, but takes five times the CPU time.
 *
 *     0x01 … 0x1A     one of COMMON, by its index; 0x1C and a letter: a further one
 *     0x1B            a settled last-write record: 6 characters of base64url for the start of the uid, 16 of what was sent, content. With its
 *                     signature it has at most the 64 bytes of a listpack, in which Redis needs half the memory of a hash table
 *     0x1D            a time, as 7 digits of the seconds in base 36
 *     0x1E            a UUID, as 22 characters of base64url
 *     0x1F            never: the Store's separator
 */
import type { RowTexts } from "@deltaloop/kube/objects";

/** Version of this form and of digests in rows. It is part of a view's name, so a view never has rows of another form. */
export const ROW_FORMAT = 2;

/** Append only, with a new ROW_FORMAT. The most frequent first: the first 26 cost one byte. */
const COMMON = [
  `"},"~own":{"content":"`,
  `","status":"`,
  `","isManaged":true}}`,
  `","isManaged":true,"isCreated":true}}`,
  `,"metadata":{`,
  `,"metadata":{"generation":`,
  `,"creationTimestamp":"`,
  `"ownerReferences":[{"apiVersion":"`,
  `,"ownerReferences":[{"apiVersion":"`,
  `","kind":"`,
  `","name":"`,
  `","uid":"`,
  `","controller":true,"blockOwnerDeletion":true}]`,
  `{"spec":{`,
  `,"status":{`,
  `{"status":{`,
  `"conditions":[{"`,
  `lastTransitionTime":"`,
  `","message":"`,
  `","observedGeneration":`,
  `,"reason":"`,
  `","reason":"`,
  `","status":"True","type":"`,
  `"replicas":`,
  `{"metadata":{},"~own":{"isOut":true}}`,
  `"}]`,
  `,"labels":{"`,
  `","status":"False","type":"`,
  `{"type":"`,
  `","status":"True","lastUpdateTime":"`,
  `","status":"False","lastUpdateTime":"`,
  `"observedGeneration":`,
  `"readyReplicas":`,
  `"availableReplicas":`,
  `"updatedReplicas":`,
  `"unavailableReplicas":`,
  `"loadBalancer":{}`,
  `,"finalizers":["`,
  `,"deletionTimestamp":"`,
  `,"annotationDigests":{"`,
  `,"annotations":{"`,
  `","`,
  `":"`,
];
const SINGLE = 26;
const [START, SENT, TIME_DIGITS] = [6, 16, 7];
const [RECORD, FURTHER, TIME, UUID] = ["\x1b", "\x1c", "\x1d", "\x1e"];
const FURTHER_FIRST = "A".charCodeAt(0);

const codes = new Map(
  COMMON.map((part, i) => [part, i < SINGLE ? String.fromCharCode(i + 1) : FURTHER + String.fromCharCode(FURTHER_FIRST + i - SINGLE)]),
);
const parts = new Map([...codes].map(([part, code]) => [code, part]));
const LONGEST_FIRST = COMMON.toSorted((a, b) => b.length - a.length).map((part) => part.replaceAll(/[[\]{}]/g, String.raw`\$&`));
const LONG = new RegExp(
  [...LONGEST_FIRST, String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"].join("|"),
  "g",
);
const SINGLE_CODES = `[${[...parts.keys()].filter((code) => code.length === 1).join("")}]`;
const SHORT = new RegExp(`${UUID}(.{22})|${TIME}(.{${TIME_DIGITS}})|${FURTHER}.|${SINGLE_CODES}`, "g");
const LONG_RECORD = /^\{"uid":"([0-9a-f]{8})","sent":"([\w-]{16})","content":"([\w-]*)","revertsMs":\[\]\}$/;

export const ROW_TEXTS: RowTexts = {
  shorten(text) {
    const record = LONG_RECORD.exec(text);
    if (record) return RECORD + base64Of(record[1] ?? "") + record[2] + record[3];
    return text.replace(LONG, (part) => codes.get(part) ?? (part.endsWith("Z") ? timeCode(part) : UUID + base64Of(part)));
  },
  restore(text) {
    if (text.startsWith(RECORD)) return recordOf(text.slice(RECORD.length));
    return text.replace(SHORT, (code: string, uuid: string | undefined, time: string | undefined) => {
      if (uuid !== undefined) return uuidOf(uuid);
      if (time !== undefined) return timeOf(Number.parseInt(time, 36) * 1_000);
      return parts.get(code) ?? code; // invalid JSON
    });
  },
};

function recordOf(text: string): string {
  const [uid, sent, content] = [text.slice(0, START), text.slice(START, START + SENT), text.slice(START + SENT)];
  return `{"uid":"${hexOf(uid)}","sent":"${sent}","content":"${content}","revertsMs":[]}`;
}

function timeCode(text: string): string {
  const ms = Date.parse(text);
  const digits = (ms / 1_000).toString(36).padStart(TIME_DIGITS, "0");
  // Date.parse accepts February 30.
  return ms >= 0 && digits.length === TIME_DIGITS && timeOf(ms) === text ? TIME + digits : text;
}

function timeOf(ms: number): string {
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? "" : `${at.toISOString().slice(0, -".000Z".length)}Z`;
}

function uuidOf(code: string): string {
  const hex = hexOf(code);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

function base64Of(digits: string): string {
  return Buffer.from(digits.replaceAll("-", ""), "hex").toString("base64url");
}

function hexOf(code: string): string {
  return Buffer.from(code, "base64url").toString("hex");
}
