// YAML errors, which must not quote the file, because it may contain a token.
import { expect, it, vi } from "vitest";
import { parseYaml } from "../../../../shared/kube/yaml/yaml.ts";

it.each([
  ["token: [hunter2\n", "not YAML: bad indent at line 2, column 1"],
  ['{"token":"hunter2', "not YAML: missing char at line 1, column 18"],
  ["a: hunter2: b", "not YAML: block as implicit key at line 1, column 4"],
  ["a: 1\nhunter2\n", "not YAML: missing char at line 2, column 1"],
  ["token: *hunter2\n", "not YAML: an alias has no anchor, or there are too many aliases"],
])("describes the error in %j without quoting it", (text, problem) => {
  expect(() => parseYaml(text)).toThrow(problem);
  expect(() => parseYaml(text)).not.toThrow("hunter2");
});

it("ignores an unknown tag and prints nothing", () => {
  const warn = vi.spyOn(process, "emitWarning");
  expect(parseYaml("token: !hunter2 x\n")).toEqual({ token: "x" });
  expect(warn).not.toHaveBeenCalled();
});
