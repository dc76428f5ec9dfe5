import type { Stats } from "node:fs";
import { expect, it } from "vitest";

import { diskUsage } from "../../../../shared/adapters/node-files/disk-usage.ts";

it("[node-agent 226] counts a directory of more files than a call may have arguments", async () => {
  const count = 300_000;
  const look = {
    stats: async (path: string) => {
      const number = path === "/d" ? 0 : Number(path.slice("/d/".length)) + 1;
      return { dev: 1, ino: number, blocks: 1, isDirectory: () => number === 0 } as Stats; // what is asked for
    },
    names: async () => Array.from({ length: count }, (_, i) => String(i)),
  };
  expect(await diskUsage("/d", look)).toEqual({ usedBytes: (count + 1) * 512, inodesUsed: count + 1 });
});
