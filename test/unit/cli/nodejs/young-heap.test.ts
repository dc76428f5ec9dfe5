// Would catch: a node agent that starts without its heap limit, restarts itself forever, or ignores a user's own setting.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { withSmallYoungHeap } from "../../../../cli/nodejs/young-heap.ts";

const MAIN = join(import.meta.dirname, "../../../../cli/main.ts");
const STARTED = { execPath: "/bin/node", execArgv: ["--inspect"], argv: ["/bin/node", "main.ts", "node", "-v"], nodeOptions: undefined };

describe("withSmallYoungHeap", () => {
  it("returns the same command with an additional option", () => {
    expect(withSmallYoungHeap(STARTED, 4)).toEqual(["/bin/node", "--inspect", "--max-semi-space-size=4", "main.ts", "node", "-v"]);
  });

  it.each([
    { name: "the process already has the option", started: { execArgv: ["--max-semi-space-size=8"] } },
    { name: "the user has set the option", started: { execArgv: ["--max_semi_space_size=32"] } },
    { name: "the user has set the option for every Node process", started: { nodeOptions: "--no-warnings --max-semi-space-size=32" } },
  ])("leaves the command unchanged when $name", ({ started }) => {
    expect(withSmallYoungHeap({ ...STARTED, ...started }, 4)).toBeUndefined();
  });
});

it.each([
  { verb: "node", limits: ["", "--max-semi-space-size=2 1"] },
  { verb: "watch", limits: [""] },
])("deltaloop $verb starts with the limits $limits, and prints no message about them", ({ verb, limits }) => {
  const tell =
    "data:text/javascript,console.log('began with', ...process.execArgv.filter((option) => option.startsWith('--max')), process.env.MALLOC_ARENA_MAX ?? '')";
  const { NODE_OPTIONS: _none, MALLOC_ARENA_MAX: _neither, ...env } = process.env;
  const { stdout, stderr } = spawnSync(process.execPath, ["--import", tell, MAIN, verb, "--help"], { encoding: "utf8", env });
  expect([...stdout.matchAll(/^began with ?(.*)$/gmu)].map(([, limits = ""]) => limits.trim())).toEqual(limits);
  expect(stdout).toContain(`Usage: deltaloop ${verb}`);
  expect(stderr).toBe("");
});
