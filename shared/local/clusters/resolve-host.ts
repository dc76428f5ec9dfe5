import { lookup } from "node:dns/promises";

import type { Clock } from "@deltaloop/base";

/** A name whose DNS server is slow must not delay other clusters. Its connections are then as slow. */
const LOOKUP_MS_MAX = 2_000;
const KNOWN_MS = 60_000;

/** Resolves names as connections do, /etc/hosts included. Returns none for a name that does not resolve in time. */
export function hostResolver(clock: Clock): (hostname: string) => Promise<readonly string[]> {
  const known = new Map<string, { readonly untilMs: number; readonly addresses: Promise<readonly string[]> }>();
  return async (hostname) => {
    const now = clock.now();
    for (const [name, { untilMs }] of known) if (untilMs <= now) known.delete(name);
    const addresses = known.get(hostname)?.addresses ?? addressesOf(hostname, clock);
    if (!known.has(hostname)) known.set(hostname, { untilMs: now + KNOWN_MS, addresses });
    return await addresses;
  };
}

async function addressesOf(hostname: string, clock: Clock): Promise<readonly string[]> {
  const found = lookup(hostname.replace(/^\[(.*)\]$/, "$1"), { all: true }).then(
    (all) => all.map(({ address }) => address),
    () => [],
  );
  const ended = new AbortController();
  const late = clock.after(LOOKUP_MS_MAX, ended.signal).then(
    () => [],
    () => [],
  );
  try {
    return await Promise.race([found, late]);
  } finally {
    ended.abort("resolved");
  }
}
