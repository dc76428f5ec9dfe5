/** docs/reference/configuration.md. Catches: an outdated page, and a variable that the product reads but the page omits. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, it } from "vitest";

import { configurationDocument } from "../../infra/configuration-document.ts";
import { configurationVariables } from "../../shared/controllers/lambda/configuration-variables.ts";

const NAMES = new Set(configurationVariables().map(({ name }) => name));
/** Variables that only LocalStack's executor reads. */
const OTHERS = new Set(["DELTALOOP_LOCAL_NODE"]);

it.each(Object.entries(configurationDocument()))("infra/%s equals the output of node infra/generate.ts", (path, text) => {
  expect(readFileSync(join("infra", path), "utf8")).toBe(text);
});

it("contains every variable that the product reads", () => {
  const sources = globSync("{shared,cli,functions,infra}/**/*.ts", { exclude: ["**/node_modules/**", "**/dist/**"] });
  const named = sources.flatMap((path) => readFileSync(path, "utf8").match(/(?<=["'`])DELTALOOP_[A-Z_]*[A-Z](?=["'`:=])/g) ?? []);
  expect(new Set(named).size).toBeGreaterThan(20);
  expect([...new Set(named)].filter((name) => !NAMES.has(name) && !OTHERS.has(name))).toEqual([]);
});

it("states which variables are required, and the defaults", () => {
  const of = (name: string) => configurationVariables().find((variable) => variable.name === name);
  expect(of("DELTALOOP_CLUSTER")).toMatchObject({ required: true });
  expect(of("DELTALOOP_MODE")).toMatchObject({ required: false, default: "shadow" });
  expect(of("DELTALOOP_KUBE_TOKEN")).not.toHaveProperty("default");
});
