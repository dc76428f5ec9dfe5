/**
 * Resolves names for connections to clusters of other users, whose DNS may answer differently after the kubeconfig was vetted.
 *
 * VL1 a name is looked up once at a time. The system's resolver occupies a thread of Node's pool for as long as a DNS server is silent (20 s
 *     with two servers in /etc/resolv.conf), so that a cluster whose name does not resolve holds one thread, not one for each attempt.
 */
import { lookup } from "node:dns";
import type { LookupAddress, LookupOptions } from "node:dns";
import type { LookupFunction } from "node:net";

import { addressProblem } from "./vet.ts";
import type { Allowance } from "./vet.ts";

type Found = (error: Error | null, addresses: readonly LookupAddress[]) => void;

/** `resolve` is the system's resolver. */
export function vettedLookup(allowed: ReadonlySet<Allowance>, resolve: Resolve = lookup): LookupFunction {
  return (hostname, options, callback) => {
    once(hostname, options, resolve, (error, addresses) => {
      const problem = error
        ? undefined
        : addressProblem(
            addresses.map(({ address }) => address),
            allowed,
          );
      if (error || problem !== undefined) return callback(error ?? new Error(`the server's ${problem}`), []);
      const [first] = addresses;
      if (options.all === true || first === undefined) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    });
  };
}

export type Resolve = (hostname: string, options: LookupOptions & { readonly all: true }, found: Found) => void;

/** Lookups in progress, with those who wait for them. */
const running = new Map<string, Found[]>();

/** VL1 */
function once(hostname: string, options: LookupOptions, resolve: Resolve, found: Found): void {
  const key = JSON.stringify([hostname, options.family, options.hints, options.order, options.verbatim]);
  const waiting = running.get(key);
  if (waiting) return void waiting.push(found);
  const all = [found];
  running.set(key, all);
  resolve(hostname, { ...options, all: true }, (error, addresses) => {
    running.delete(key);
    for (const each of all) each(error, addresses);
  });
}
