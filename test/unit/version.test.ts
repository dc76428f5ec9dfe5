/** Catches a release whose User-Agent names another version. */
import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { VERSION } from "../../shared/base/version.ts";

it("the version is that of package.json", () => {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
  expect(VERSION).toBe(version);
});
