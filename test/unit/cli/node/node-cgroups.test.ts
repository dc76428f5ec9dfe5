// Would catch: an agent that the kernel kills first when memory runs out, and an agent that does not start without permission to change its
// OOM score.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { setOomScore } from "../../../../cli/node/node-cgroups.ts";
import { recordingLog } from "../../recording-log.ts";

it("[node-agent 198] sets the agent's own oom_score_adj, or logs that this is not permitted", async () => {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-oom-"));
  const log = recordingLog();
  await setOomScore(-999, log, join(folder, "oom_score_adj"));
  expect(await readFile(join(folder, "oom_score_adj"), "utf8")).toBe("-999");
  expect(log.lines).toEqual([]);
  await setOomScore(-999, log, join(folder, "none", "oom_score_adj"));
  expect(log.lines.map(({ message }) => message)).toEqual(["failed to set the agent's OOM score"]);
  await rm(folder, { recursive: true });
});
