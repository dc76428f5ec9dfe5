/** A deployment's parameter file, `name: value` per line, for `npm run deploy` and `deltaloop cost`. */
import { parseYamlTexts } from "@deltaloop/kube/yaml";

/** @throws {Error} for any other content; quotes no value */
export function parameterTexts(text: string): Readonly<Record<string, string>> {
  const read = parseYamlTexts(text);
  if (typeof read !== "object" || read === null || Array.isArray(read)) throw new Error("must be lines of `name: value`");
  return Object.fromEntries(
    Object.entries(read).map(([name, value]) => {
      if (typeof value !== "string") throw new Error(`${name}: must be one string; separate several values with commas`);
      return [name, value] as const;
    }),
  );
}
