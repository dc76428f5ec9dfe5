/**
 * Pods as protobuf: upstream's types and serializers encode recorded and random pods as JSON and as protobuf, and both have the same
 * projection here, byte for byte. Otherwise each own write, whose response is JSON, would look like drift.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, describe, expect, it } from "vitest";

import { isObject } from "../../shared/base/json.ts";
import { isOwnWrite } from "../../shared/controllers/cache/watcher/own-write.ts";
import { parseWatchLine } from "../../shared/kube/list-watch/watch-line.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { decodeList } from "../../shared/kube/protobuf/envelope.ts";
import { POD_FIELDS } from "../../shared/kube/strip/pod-fields.ts";
import { strip } from "../../shared/kube/strip/strip.ts";
import { messageOf } from "../../shared/kube/objects/errors.ts";
import { testProgram } from "./build.ts";
import { start } from "./apply/upstream.ts";

const RANDOM = 4_000;
const AT_ONCE = 100;
const CAPTURES = join(import.meta.dirname, "..", "captures");
/** The first seed of a run; it changes every second. */
const FIRST = Math.floor(Date.now() / 1000);

const built = await testProgram({
  name: "protobuf encoder",
  takes: "about a minute",
  files: [join(import.meta.dirname, "protobuf", "upstream", "protobuf_test.go")],
});
const missing = "missing" in built ? built.missing : undefined;
if (missing !== undefined) process.stderr.write(`!!!!  upstream's protobuf encoder cannot run: ${missing}\n`);

interface Encoded {
  readonly lines: readonly string[];
  /** Base64, as Go prints bytes. */
  readonly frames: readonly string[];
  readonly listJSON: string;
  readonly list: string;
}

const digester = createDigester("protobuf");
/** What the watcher makes of a pod: the cached bytes, or why it has none, and whether an event of it counts as an own write. */
function readOf(object: unknown): unknown {
  const own = (["A", "M", "D"] as const).map((type) => isOwnWrite("pods", type, object));
  try {
    return [JSON.stringify(strip("pods", object, digester)), own];
  } catch (error) {
    return [messageOf(error), own];
  }
}

function readOfEvent(frame: string | Buffer): unknown {
  const event = parseWatchLine(frame, POD_FIELDS);
  return event.kind === "change" ? [event.type, event.rv, readOf(event.object)] : event;
}

describe.skipIf(missing !== undefined)(
  `a pod is cached alike from JSON and protobuf${missing === undefined ? "" : ` (${missing})`}`,
  () => {
    const upstream = "program" in built ? start(built.program, "TestProtobuf") : undefined;
    afterAll(() => upstream?.close());

    async function compared(question: object): Promise<readonly string[]> {
      if (upstream === undefined) throw new Error("skipped");
      const { lines, frames, listJSON, list } = (await upstream.ask(question)) as Encoded; // written by protobuf_test.go
      const [json, binary] = [lines.map(readOfEvent), frames.map((frame) => readOfEvent(Buffer.from(frame, "base64")))];
      for (const [i, each] of json.entries()) expect(binary[i], `pod ${i} of ${JSON.stringify(question).slice(0, 100)}`).toEqual(each);
      const whole = JSON.parse(listJSON) as { readonly metadata: object; readonly items: readonly unknown[] };
      const decoded = decodeList(Buffer.from(list, "base64"), POD_FIELDS);
      expect(decoded.metadata).toEqual(whole.metadata);
      expect(decoded.items.map(readOf)).toEqual(whole.items.map(readOf));
      return json.map((each) => JSON.stringify(each));
    }

    it(`as ${RANDOM} random pods from seed ${FIRST} on`, { timeout: 300_000 }, async () => {
      const texts: string[] = [];
      for (let seed = FIRST; texts.length < RANDOM; seed += 1) texts.push(...(await compared({ seed, count: AT_ONCE })));
      // The random pods reach what the projection distinguishes.
      for (const field of [
        "owner",
        "ready",
        "since",
        "deletionCost",
        "restarts",
        "sidecarRestarts",
        "nodeName",
        "deletionTimestamp",
        "true",
      ])
        expect(texts.filter((text) => text.includes(field)).length, field).toBeGreaterThan(RANDOM / 100);
    });

    it("as the pods of the captures", { timeout: 300_000 }, async () => {
      const pods = recordedPods();
      expect(pods.length).toBeGreaterThan(500);
      for (let at = 0; at < pods.length; at += AT_ONCE) await compared({ pods: pods.slice(at, at + AT_ONCE) });
    });
  },
);

/** Every whole pod in the captures: of lists, events, and the bodies and responses of audit logs. */
function recordedPods(): readonly object[] {
  const files = readdirSync(CAPTURES, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".jsonl.gz"));
  return files.flatMap((file) =>
    gunzipSync(readFileSync(join(CAPTURES, file)))
      .toString()
      .split("\n")
      .filter((line) => line.includes('"kind":"Pod"'))
      .flatMap((line) => podsIn(JSON.parse(line))),
  );
}

function podsIn(value: unknown): readonly object[] {
  if (Array.isArray(value)) return value.flatMap(podsIn);
  if (!isObject(value)) return [];
  const isPod = value["kind"] === "Pod" && isObject(value["metadata"]) && isObject(value["spec"]) && "uid" in value["metadata"];
  return isPod ? [value] : Object.values(value).flatMap(podsIn);
}
