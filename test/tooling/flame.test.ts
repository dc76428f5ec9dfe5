/** The flame graphs of test/bench/flame.ts. */
import { expect, it } from "vitest";

import { flameSvg, framesOf } from "../bench/flame.ts";

const at = (functionName: string, url = "") => ({ functionName, url, lineNumber: 4 });

const PROFILE = {
  nodes: [
    { id: 1, callFrame: at("(root)"), children: [2, 3, 5] },
    { id: 2, callFrame: at("(idle)") },
    { id: 3, callFrame: at("sync", "file:///somewhere/dist/cli/host.js"), children: [4] },
    { id: 4, callFrame: at("<write>", "file:///somewhere/node_modules/@scope/name/index.js") },
    { id: 5, callFrame: at("sync", "file:///somewhere/dist/cli/host.js") },
  ],
  samples: [2, 3, 4, 4, 5],
  timeDeltas: [9_000, 1_000, 2_000, 2_000, 3_000],
};

it("a flame graph contains only busy time, and each frame once with its callees below", () => {
  const root = framesOf(PROFILE);
  expect(root.total).toBe(8_000);
  const [sync, ...others] = root.children.values();
  expect(others).toEqual([]);
  expect(sync).toMatchObject({ name: "sync dist/cli/host.js:5", own: 4_000, total: 8_000 });
  expect([...(sync?.children.values() ?? [])]).toMatchObject([{ name: "<write> @scope/name:5", own: 4_000, total: 4_000 }]);
});

it("draws a frame proportional to its share, with any name", () => {
  const svg = flameSvg(framesOf(PROFILE));
  expect(svg).toContain('<title>&lt;write> @scope/name:5: 50.0 %, 4 ms</title><rect x="0.0" y="-48" width="599.7"');
  expect(svg).not.toContain("(idle)");
});
