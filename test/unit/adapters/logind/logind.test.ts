/** logind through busctl: invalid lines, shutdown signals and termination. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, expect, it } from "vitest";

import { createLogind } from "../../../../shared/node-agent/logind/logind.ts";

const path = process.env["PATH"];
const folder = mkdtempSync(join(tmpdir(), "deltaloop-logind-"));
afterEach(() => {
  process.env["PATH"] = path;
  rmSync(folder, { recursive: true, force: true });
});

/** Replaces busctl by a program that answers requests, and writes `lines` when it listens for signals. */
function busctlWrites(lines: readonly string[]): void {
  const file = join(folder, "busctl");
  const [last = "", ...others] = lines.toReversed();
  const writes = [...others.toReversed().map((line) => `printf '%s\\n' '${line}'`), `printf '%s' '${last}'`];
  const monitor = ["echo listening >&2", "sleep 0.2", ...writes].join("; ");
  writeFileSync(file, `#!/bin/sh\ncase "$*" in *monitor*) ${monitor};; *) echo '{"type":"b","data":false}';; esac\n`);
  chmodSync(file, 0o755);
  process.env["PATH"] = `${folder}:${path}`;
}

it("[node-agent 498] reports a shutdown signal between invalid lines, and rejects only when busctl exits", async () => {
  const signal = (payload: string): string => `{"type":"signal","member":"PrepareForShutdown","payload":${payload}}`;
  busctlWrites(["not json", "null", "7", signal("null"), signal('{"data":[true]}'), '{"type":"signal","member":"Prep']);
  const told: boolean[] = [];
  const watching = createLogind().watchShutdown((value) => told.push(value), new AbortController().signal);
  await expect(watching).rejects.toThrow("busctl: ");
  expect(told.filter(Boolean)).toEqual([true]);
});
