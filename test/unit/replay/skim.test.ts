// Skimming: determines the final state of a capture without parsing superseded objects.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { bytesHeld } from "../../../shared/replay/capture-format/line-stream.ts";
import { captureIn } from "../../../shared/replay/capture-format/capture-stream.ts";
import { identityIn } from "../../../shared/replay/capture-format/captured-object.ts";
import { parseAny, readUnpacked } from "../../../shared/replay/capture-format/capture.ts";
import { Skimmer } from "../../../shared/replay/capture-format/skim.ts";
import { StateCensus } from "../../../shared/replay/incident/cluster-state.ts";
import type { ClusterState } from "../../../shared/replay/incident/cluster-state.ts";
import { worstFirst } from "../../../shared/replay/verdict/verdict.ts";

const CAPTURES = join(import.meta.dirname, "../../captures");
const files = ["healthy", "incidents"].flatMap((folder) =>
  readdirSync(join(CAPTURES, folder)).flatMap((file) => (file.endsWith(".jsonl.gz") ? [`${folder}/${file}`] : [])),
);
const digester = createDigester("a key of this test alone");
const textOf = (file: string): string => readUnpacked(join(CAPTURES, file)).toString();

interface Read {
  readonly verdicts: unknown;
  readonly notes: readonly string[];
  readonly records: number;
}

async function read(text: string, skims: boolean): Promise<Read> {
  const state = new StateCensus(digester);
  const verdicts: unknown[] = [];
  const notes: string[] = [];
  const census = {
    begin: () => state.begin(),
    see: state.see.bind(state),
    seeEvidence: state.seeEvidence.bind(state),
    end: () => void verdicts.splice(0, Infinity, ...readAll(state.state())),
  };
  const { records } = await captureIn(bytesHeld(Buffer.from(text)), "it", { census, skims, note: (note) => void notes.push(note) });
  return { verdicts, notes, records };
}

function readAll(cluster: ClusterState): readonly unknown[] {
  const { owners, pods, others, changesOf, startsOf, availableOf } = cluster;
  const uids = owners.map(({ uid }) => uid);
  return [worstFirst(cluster), owners, pods, others, uids.map(changesOf), uids.map(startsOf), uids.map(availableOf)];
}

describe("reading a recording without parsing every line", () => {
  it.each(files)("%s: gives the same state as a full read", async (file) => {
    expect(await read(textOf(file), true)).toEqual(await read(textOf(file), false));
  });

  it("reads the identity of nearly every object without parsing its line", () => {
    const skimmer = new Skimmer();
    let [skimmed, parsed] = [0, 0];
    for (const line of files.flatMap((file) => textOf(file).split("\n").filter(Boolean))) {
      const record = parseAny(line);
      const identity = record && identityIn(record);
      if (record === undefined || identity === undefined) continue;
      const seen = skimmer.skim(line);
      if (seen === undefined) parsed++;
      else skimmed++;
      if (seen === undefined) continue;
      const { atMs, resource, kind, type, object } = seen;
      expect(seen.identity).toEqual(identity);
      expect({ atMs, resource, kind, type, object, evidence: "evidence" in seen ? seen.evidence : undefined }).toEqual({
        ...{ atMs: record.atMs, resource: record.resource, kind: record.kind, type: record.type, object: record.object },
        evidence: "evidence" in record ? record.evidence : undefined,
      });
    }
    expect(skimmed).toBeGreaterThan(4_000);
    expect(parsed / skimmed).toBeLessThan(0.01);
  });

  it("reports a truncated line as a full read does", async () => {
    const lines = textOf("incidents/image-not-found.jsonl.gz").split("\n").filter(Boolean);
    const line = fc.integer({ min: 1, max: lines.length - 2 });
    await fc.assert(
      fc.asyncProperty(line, fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom("", "\n"), async (index, share, joint) => {
        const text = lines[index] ?? "";
        const cut = text.slice(0, Math.floor(share * text.length));
        // Skips cuts that look complete, because a superseded object that looks complete is not parsed.
        fc.pre(!cut.endsWith("}}"));
        const torn = [
          ...lines.slice(0, index).map((each) => `${each}\n`),
          cut,
          joint,
          ...lines.slice(index + 1).map((each) => `${each}\n`),
        ];
        expect(await read(torn.join(""), true)).toEqual(await read(torn.join(""), false));
      }),
      { numRuns: 100 },
    );
  });

  it.each([true, false])("skips a line that was truncated after its first brace (skims: %s)", async (skims) => {
    const lines = textOf("incidents/image-not-found.jsonl.gz").split("\n").filter(Boolean);
    const { notes, records } = await read(`${lines.with(28, "{").join("\n")}\n`, skims);
    expect(notes).toEqual(["it: skipped 1 truncated line, as after a crash, a rotation or a full disk; the first is line 29"]);
    expect(records).toBeGreaterThan(10);
    await expect(read("{\n}\n", skims)).rejects.toThrow("convert JSON that kubectl printed over several lines");
  });

  it("falls back to parsing every line if a skimmed recording is not JSON", async () => {
    const lines = textOf("incidents/image-not-found.jsonl.gz").split("\n").filter(Boolean);
    const last = lines.findLastIndex((each) => each.includes('"r":"pods","type":"MODIFIED"'));
    const broken = lines.with(last, `${lines[last]?.slice(0, 600)}}}`).join("\n");
    const { notes } = await read(broken, true);
    expect(notes).toEqual([expect.stringContaining(`the first is line ${last + 1}`)]);
    expect(await read(broken, true)).toEqual(await read(broken, false));
  });
});
