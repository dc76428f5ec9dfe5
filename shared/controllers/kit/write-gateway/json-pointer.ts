/** JSON pointers (RFC 6901) into bodies, for the contract's paths: `/metadata/annotations/deployment.kubernetes.io~1revision`. */

/** The first leaf (scalar, `null`, empty object or list) that is neither one of `allowed` nor below one. */
export function strayPointer(value: unknown, allowed: ReadonlySet<string>, at = ""): string | undefined {
  if (allowed.has(at)) return undefined;
  if (typeof value !== "object" || value === null) return at;
  const entries = Object.entries(value).filter(([, child]) => child !== undefined);
  if (entries.length === 0) return at;
  for (const [key, child] of entries) {
    const stray = strayPointer(child, allowed, `${at}/${escape(key)}`);
    if (stray !== undefined) return stray;
  }
  return undefined;
}

/** Parsed paths of the contract: few, and used by every write. */
const KEYS = new Map<string, readonly string[]>();

function keysOf(pointer: string): readonly string[] {
  let keys = KEYS.get(pointer);
  if (keys === undefined) {
    const tokens = pointer.split("/").slice(1);
    KEYS.set(pointer, (keys = tokens.map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"))));
  }
  return keys;
}

/** Returns the value at `pointer` (a path of the contract), or undefined. */
export function valueAt(value: unknown, pointer: string): unknown {
  let current = value;
  for (const key of keysOf(pointer)) {
    if (typeof current !== "object" || current === null || !Object.hasOwn(current, key)) return undefined;
    current = (current as Readonly<Record<string, unknown>>)[key]; // hasOwn is checked above
  }
  return current;
}

function escape(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}
