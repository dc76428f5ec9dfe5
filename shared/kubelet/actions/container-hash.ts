/** Tells a running container from what its spec says by now (node-agent §6.5, §7.1): only name and image make another one. */

const FNV_OFFSET_BASIS = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/**
 * FNV-1a, 32 bits, of the JSON text of name and image in that order, in lower-case hexadecimal without leading zeros. It stands
 * in an annotation of every container, so it must be the same in every version of the agent.
 *
 *     { name: "foo1", image: "foo:v1" } → hash of {"name":"foo1","image":"foo:v1"} → "cdee102b"
 *
 * Source: pkg/kubelet/container/helpers.go HashContainer, pickFieldsToHash.
 * Differs from upstream: there the hash is of a Go dump of the JSON, which no other language can make without copying Go's
 * printer. Containers that a kubelet made would all be replaced; taking them over is not a goal.
 */
export function containerHash({ name, image = "" }: { readonly name: string; readonly image?: string }): string {
  let hash = FNV_OFFSET_BASIS;
  for (const byte of new TextEncoder().encode(JSON.stringify({ name, image }))) hash = Math.imul(hash ^ byte, FNV_PRIME);
  return (hash >>> 0).toString(16);
}
