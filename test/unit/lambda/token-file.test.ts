// A token file that is replaced within one tick of the file system's clock.
import { mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, it } from "vitest";

import { tokenFrom } from "../../../shared/controllers/lambda/token-file.ts";

it("reads the token file again when it has changed, and when the server has rejected the token", async () => {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-token-"));
  try {
    const path = join(folder, "token");
    const put = async (text: string, atSeconds: number): Promise<void> => {
      await writeFile(path, text);
      await utimes(path, atSeconds, atSeconds);
    };
    const token = tokenFrom(path);
    await put("one\n", 1_000);
    expect(await token()).toBe("one");
    await put("two\n", 1_000);
    expect(await token("zero")).toBe("one");
    expect(await token("one")).toBe("two");
    await put("three\n", 1_001);
    expect(await token()).toBe("three");
  } finally {
    await rm(folder, { recursive: true });
  }
});
