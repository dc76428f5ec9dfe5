/** Reads the committed systemd unit of the node agent. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export const NODE_UNIT = join(import.meta.dirname, "..", "..", "..", "infra", "node-agent", "deltaloop-node.service");

/**
 * Returns the values of a key, with `CAP_A CAP_B` split into two.
 * @throws {Error} if the unit lacks the key
 */
export function unitValues(key: string): readonly string[] {
  const found = new RegExp(`^${key}=(.*)$`, "m").exec(readFileSync(NODE_UNIT, "utf8"))?.[1];
  if (found === undefined) throw new Error(`the unit has no key ${key}`);
  return found.split(" ");
}
