import { lookup } from "node:dns";
import type { LookupFunction } from "node:net";

import { addressProblem } from "./vet.ts";
import type { Allowance } from "./vet.ts";

/** Resolves names for connections to clusters of other users, whose DNS may answer differently after the kubeconfig was vetted. */
export function vettedLookup(allowed: ReadonlySet<Allowance>): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      const problem = error
        ? undefined
        : addressProblem(
            addresses.map(({ address }) => address),
            allowed,
          );
      if (error || problem !== undefined) return callback(error ?? new Error(`the server's ${problem}`), []);
      const [first] = addresses;
      if (options.all === true || first === undefined) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}
