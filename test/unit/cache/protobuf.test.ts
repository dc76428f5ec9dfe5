/** Pods as protobuf: the decoder, the table of the fields that it visits, frames, and what bytes of any kind do to them. */
import { describe, expect, it } from "vitest";

import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { PROTOBUF_SCHEMA } from "../../../shared/api-server/rest/protobuf-schema.ts";
import { isOwnWrite } from "../../../shared/controllers/cache/watcher/own-write.ts";
import { createFrameSplitter } from "../../../shared/kube/http/frame-splitter.ts";
import { parseWatchLine } from "../../../shared/kube/list-watch/watch-line.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { decodeMessage, MalformedProtobufError } from "../../../shared/kube/protobuf/decode.ts";
import { decodeEvent, decodeList, decodeStatus } from "../../../shared/kube/protobuf/envelope.ts";
import type { Field, Fields } from "../../../shared/kube/protobuf/fields.ts";
import { POD_FIELDS } from "../../../shared/kube/strip/pod-fields.ts";
import { strip } from "../../../shared/kube/strip/strip.ts";
import { owner, podObject } from "../../bench/objects.ts";
import { bytesField, encodeEvent, encodeList, encodeMessage, encodeObject, framed, varintField } from "../../support/protobuf-encoder.ts";

const digester = createDigester("protobuf");
const POD = podObject(7, owner(3), "812") as { readonly metadata: object; readonly spec: object; readonly status: object };
const SIDECARS = {
  ...POD,
  metadata: { ...POD.metadata, annotations: { "controller.kubernetes.io/pod-deletion-cost": "-3", other: "x" } },
  spec: { ...POD.spec, initContainers: [{ name: "a", restartPolicy: "Always" }, { name: "b" }] },
  status: {
    ...POD.status,
    containerStatuses: [{ name: "web", restartCount: 2 }],
    initContainerStatuses: [
      { name: "a", restartCount: 3 },
      { name: "b", restartCount: 9 },
    ],
  },
};

describe("the decoder", () => {
  it.each([POD, SIDECARS])("returns what the projection reads of the JSON", (pod) => {
    const frame = encodeEvent("ADDED", "Pod", pod);
    const [decoded, parsed] = [parseWatchLine(frame, POD_FIELDS), parseWatchLine(JSON.stringify({ type: "ADDED", object: pod }))];
    if (decoded.kind !== "change" || parsed.kind !== "change") throw new Error(decoded.kind);
    expect(decoded.rv).toBe("812");
    expect(JSON.stringify(strip("pods", decoded.object, digester))).toBe(JSON.stringify(strip("pods", parsed.object, digester)));
    expect(isOwnWrite("pods", "M", decoded.object)).toBe(isOwnWrite("pods", "M", parsed.object));
  });

  it("skips fields that it does not know, of each wire type", () => {
    const unknown = Buffer.concat([
      varintField(400, 2n ** 64n - 1n),
      Buffer.from([(2 << 3) | 1, 1, 2, 3, 4, 5, 6, 7, 8]),
      bytesField(401, Buffer.from("secret")),
      Buffer.from([(3 << 3) | 5, 1, 2, 3, 4]),
    ]);
    const bytes = Buffer.concat([unknown, bytesField(1, Buffer.from("web")), unknown]);
    expect(decodeMessage(bytes, { name: [1, "string"] })).toEqual({ name: "web" });
  });

  const FIELDS = { text: [1, "string"], count: [2, "int"], is: [3, "bool"], at: [4, "time"], map: [5, "map"] } as const satisfies Fields;
  it.each([
    { what: "a negative number", bytes: varintField(2, -7n), want: { count: -7 } },
    { what: "2^53", bytes: varintField(2, 2n ** 53n), want: { count: 2 ** 53 } },
    { what: "-2^53", bytes: varintField(2, -(2n ** 53n)), want: { count: -(2 ** 53) } },
    { what: "true", bytes: varintField(3, 1n), want: { is: true } },
    { what: "an unset time", bytes: bytesField(4, Buffer.alloc(0)), want: {} },
    { what: "1970", bytes: bytesField(4, Buffer.concat([varintField(1, 0n), varintField(2, 0n)])), want: { at: "1970-01-01T00:00:00Z" } },
    {
      what: "a time with nanoseconds",
      bytes: bytesField(4, Buffer.concat([varintField(1, 60n), varintField(2, 5n)])),
      want: { at: "1970-01-01T00:01:00Z" },
    },
    { what: "the year 900", bytes: bytesField(4, varintField(1, -33_765_897_600n)), want: { at: "0900-01-01T00:00:00Z" } },
    { what: "the year 10000", bytes: bytesField(4, varintField(1, 253_402_300_800n)), want: { at: "10000-01-01T00:00:00Z" } },
    { what: "the year -1", bytes: bytesField(4, varintField(1, -62_198_755_200n)), want: { at: "-0001-01-01T00:00:00Z" } },
    { what: "no year of a calendar", bytes: bytesField(4, varintField(1, 2n ** 62n)), want: { at: "275760-09-13T00:00:00Z" } },
    { what: "an entry without value", bytes: bytesField(5, bytesField(1, Buffer.from("a"))), want: { map: { a: "" } } },
    { what: "text beyond ASCII", bytes: bytesField(1, Buffer.from("é✓𝄞")), want: { text: "é✓𝄞" } },
    { what: "the last of two values", bytes: Buffer.concat([varintField(2, 1n), varintField(2, 2n)]), want: { count: 2 } },
  ])("decodes $what", ({ bytes, want }) => expect(decodeMessage(bytes, FIELDS)).toEqual(want));

  it("decodes a key that is a property of every object as any other key", () => {
    const entry = Buffer.concat([bytesField(1, Buffer.from("__proto__")), bytesField(2, Buffer.from("x"))]);
    expect(JSON.stringify(decodeMessage(bytesField(5, entry), FIELDS))).toBe('{"map":{"__proto__":"x"}}');
  });

  it.each([
    { what: "a group", bytes: Buffer.from([(9 << 3) | 3]) },
    { what: "wire type 7", bytes: Buffer.from([(9 << 3) | 7]) },
    { what: "field 0", bytes: Buffer.from([2, 0]) },
    { what: "a string as a number", bytes: varintField(1, 1n) },
    { what: "a number as a string", bytes: bytesField(2, Buffer.from("1")) },
    { what: "a number without an end", bytes: Buffer.concat([Buffer.from([2 << 3]), Buffer.alloc(10, 0xff), Buffer.from([1])]) },
    { what: "a length beyond the message", bytes: Buffer.from([(1 << 3) | 2, 5, 65]) },
    { what: "a negative length", bytes: Buffer.concat([Buffer.from([(1 << 3) | 2]), varintField(0, -1n).subarray(1)]) },
  ])("rejects $what", ({ bytes }) => expect(() => decodeMessage(bytes, FIELDS)).toThrow(MalformedProtobufError));

  it("rejects an object at each place where it may be truncated", () => {
    const whole = encodeMessage("Pod", SIDECARS);
    let complete = 0;
    for (let length = 0; length < whole.length; length++) {
      const part = whole.subarray(0, length);
      try {
        decodeMessage(part, POD_FIELDS);
        complete += 1;
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedProtobufError);
      }
    }
    expect(complete).toBe(3); // before each of metadata, spec and status
  });

  it("throws no other error for altered bytes", () => {
    const random = createSeededRandom(4711);
    const below = (bound: number): number => Math.floor(random.next() * bound);
    const seeds = [encodeEvent("MODIFIED", "Pod", SIDECARS), encodeEvent("ERROR", "Status", { code: 410, reason: "Expired" })];
    let rejected = 0;
    for (let round = 0; round < 6_000; round++) {
      const bytes = Buffer.from(seeds[round % 2] ?? []);
      for (let change = below(4); change >= 0; change--) bytes[below(bytes.length)] = below(256);
      const part = bytes.subarray(0, below(5) === 0 ? below(bytes.length) : bytes.length);
      for (const decode of [() => decodeEvent(part, POD_FIELDS), () => decodeList(part, POD_FIELDS), () => decodeStatus(part)])
        try {
          decode();
        } catch (error) {
          if (!(error instanceof MalformedProtobufError)) throw error;
          rejected += 1;
        }
    }
    expect(rejected).toBeGreaterThan(12_000); // lists and Statuses have another envelope
  });
});

describe("the table of a pod's fields", () => {
  it("has upstream's numbers and types", () => {
    const kinds: Readonly<Record<string, string>> = { s: "string", i: "int", b: "bool", Time: "time", "m:s": "map" };
    function compare(fields: Fields, message: string): void {
      const schema = new Map((PROTOBUF_SCHEMA[message] ?? "").split(", ").map((field) => [field.split(" ")[1], field.split(" ")]));
      for (const [name, [number, type, inner]] of Object.entries<Field>(fields)) {
        const [theirNumber = "", , theirs = ""] = schema.get(name) ?? [];
        expect([name, number], message).toEqual([name, Number(theirNumber)]);
        const bare = theirs.replace(/[?*]$/, "");
        expect([name, type], message).toEqual([name, kinds[bare] ?? (theirs.endsWith("*") ? "list" : "message")]);
        if (type === "message" || type === "list") compare(inner as Fields, bare);
      }
    }
    compare(POD_FIELDS, "Pod");
  });

  it("has no field that is not read", () => {
    const read = new Set<string>();
    const watched = (value: unknown, path: string): unknown => {
      if (typeof value !== "object" || value === null) return value;
      return new Proxy(value, {
        get(target, key) {
          const inner: unknown = Reflect.get(target, key);
          if (typeof key === "symbol" || (Array.isArray(target) && !/^\d+$/.test(key))) return inner;
          const place = Array.isArray(target) ? path : `${path}.${key}`;
          read.add(place);
          return watched(inner, place);
        },
      });
    };
    const object = watched(SIDECARS, "");
    strip("pods", object, digester);
    isOwnWrite("pods", "M", object);
    const paths = (fields: Fields, above: string): readonly string[] =>
      Object.entries<Field>(fields).flatMap(([name, [, type, inner]]) =>
        type === "message" || type === "list" ? paths(inner as Fields, `${above}.${name}`) : [`${above}.${name}`],
      );
    expect(paths(POD_FIELDS, "").filter((path) => !read.has(path))).toEqual([]);
  });
});

describe("what encloses the objects", () => {
  it("is a list with its version and continue token", () => {
    const list = encodeList("Pod", { resourceVersion: "9", continue: "next" }, [POD, SIDECARS]);
    const { metadata, items } = decodeList(list, POD_FIELDS);
    expect(metadata).toEqual({ resourceVersion: "9", continue: "next" });
    expect(items.map((item) => strip("pods", item, digester))).toEqual([POD, SIDECARS].map((pod) => strip("pods", pod, digester)));
  });

  it("is a Status without the zeros that its JSON omits", () => {
    const status = { status: "Failure", reason: "Expired", code: 410, details: { causes: [{ reason: "a", message: "b", field: "c" }] } };
    expect(decodeStatus(encodeObject("Status", { ...status, message: "" }))).toEqual({ kind: "Status", ...status });
  });

  it("is a bookmark, or an error", () => {
    const annotations = { "k8s.io/initial-events-end": "true" };
    const bookmark = encodeEvent("BOOKMARK", "Pod", { metadata: { resourceVersion: "5", annotations } });
    expect(parseWatchLine(bookmark, POD_FIELDS)).toEqual({ kind: "bookmark", rv: "5", endsInitialEvents: true });
    const error = encodeEvent("ERROR", "Status", { code: 429, reason: "TooManyRequests", details: { retryAfterSeconds: 7 } });
    expect(parseWatchLine(error, POD_FIELDS)).toMatchObject({ kind: "error", error: { code: 429, retryAfterSeconds: 7 } });
    expect(parseWatchLine(Buffer.from("{}"), POD_FIELDS)).toMatchObject({ kind: "undecodable" });
  });
});

describe("frames", () => {
  const events = ["a", "", "c".repeat(300)].map((text) => Buffer.from(text));
  const bytes = Buffer.concat(events.map(framed));

  it.each([1, 2, 3, 5, 150, 1000])("are the same in chunks of %i bytes", (size) => {
    const splitter = createFrameSplitter();
    const frames: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += size) frames.push(...splitter.push(bytes.subarray(at, at + size)));
    expect(frames.map(String)).toEqual(events.map(String));
  });

  it("end the stream when one is too long, before it has arrived", () => {
    expect(() => createFrameSplitter(299).push(bytes)).toThrow(RangeError);
    expect(createFrameSplitter(300).push(bytes)).toHaveLength(3);
  });

  it("are not returned before they are complete", () => {
    expect(createFrameSplitter().push(bytes.subarray(0, -1))).toHaveLength(2);
  });
});
