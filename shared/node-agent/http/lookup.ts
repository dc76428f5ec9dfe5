/**
 * Resolves the host names of probes. Node's getaddrinfo runs on at most two threads and cannot be cancelled, so two unresponsive DNS
 * servers would block all lookups of the agent, including that of the API server. This resolver uses no threads.
 *
 * Source: Go net/dnsclient_unix.go goLookupIPCNAMEOrder, nameList; Go net/hosts.go.
 *
 * Differs from upstream: ignores nsswitch.conf and uses the hosts file, then DNS.
 */
import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import type { LookupFunction } from "node:net";
import { isIP } from "node:net";
import { messageOf } from "@deltaloop/kube/objects";

interface Address {
  readonly address: string;
  readonly family: number;
}

export interface LookupFiles {
  readonly hosts: string;
  readonly resolvConf: string;
}

const FILES: LookupFiles = { hosts: "/etc/hosts", resolvConf: "/etc/resolv.conf" };
/** Source: Go net/dnsconfig_unix.go dnsReadConfig. */
const NDOTS = 1;
const NDOTS_MAX = 15;

/** Returns a `lookup` option for `connect`, which calls it only for host names. A lookup ends when `signal` aborts. */
export function lookupUntil(signal: AbortSignal, files: LookupFiles = FILES): LookupFunction {
  return (hostname, { all = false }, callback) => {
    addressesOf(hostname, signal, files).then(
      (found) => {
        if (all) callback(null, [...found]);
        else callback(null, found[0]?.address ?? "", found[0]?.family);
      },
      (error: Error) => callback(error, all ? [] : ""),
    );
  };
}

/** Returns at least one address. @throws {Error} if the lookup fails or `signal` aborts */
async function addressesOf(hostname: string, signal: AbortSignal, { hosts, resolvConf }: LookupFiles): Promise<readonly Address[]> {
  const [known, configuration] = await Promise.all([hosts, resolvConf].map((path) => readFile(path, "utf8").catch(() => "")));
  const own = hostsEntries(hostname, known ?? "");
  if (own.length > 0) return own;
  const { servers, names } = resolution(hostname, configuration ?? "");
  const resolver = new Resolver();
  if (servers.length > 0) resolver.setServers(servers);
  const cancel = (): void => resolver.cancel();
  signal.addEventListener("abort", cancel, { once: true });
  try {
    let why = "no such host";
    for (const name of names) {
      signal.throwIfAborted();
      const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
      const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
      if (found.length > 0) return found.map(addressOf);
      for (const answer of answers) if (answer.status === "rejected" && !isAbsence(answer.reason)) why = messageOf(answer.reason);
    }
    throw new Error(`lookup ${hostname}: ${why}`);
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

function addressOf(address: string): Address {
  return { address, family: isIP(address) };
}

function isAbsence(reason: unknown): boolean {
  const { code } = reason as NodeJS.ErrnoException; // errors of the Resolver have string codes
  return code === "ENOTFOUND" || code === "ENODATA";
}

/** Returns the addresses of `hostname` in a hosts file. Source: Go net/hosts.go readHosts. */
export function hostsEntries(hostname: string, text: string): readonly Address[] {
  const wanted = bare(hostname);
  return linesOf(text).flatMap(([address = "", ...names]) =>
    isIP(address) !== 0 && names.some((name) => bare(name) === wanted) ? [addressOf(address)] : [],
  );
}

/**
 * Returns the DNS servers and the names to try; the first name with an address is used.
 *
 *     search shop.test test · ndots:2 → web.db: web.db.shop.test, web.db.test, web.db      web.db.: web.db.
 */
export function resolution(hostname: string, text: string): { readonly servers: readonly string[]; readonly names: readonly string[] } {
  let ndots = NDOTS;
  let search: readonly string[] = [];
  const servers: string[] = [];
  for (const [word, ...rest] of linesOf(text)) {
    if (word === "nameserver" && rest[0] !== undefined) servers.push(rest[0]);
    if (word === "search" || word === "domain") search = rest.map(bare).filter((suffix) => suffix !== "");
    if (word !== "options") continue;
    for (const option of rest) if (/^ndots:\d+$/u.test(option)) ndots = Math.min(Number(option.slice("ndots:".length)), NDOTS_MAX);
  }
  const isRooted = hostname.endsWith(".");
  const suffixed = isRooted ? [] : search.map((suffix) => `${hostname}.${suffix}`);
  const isAskedFirst = hostname.split(".").length - 1 >= ndots;
  return { servers, names: isAskedFirst ? [hostname, ...suffixed] : [...suffixed, hostname] };
}

/** Returns the words of each line, without comments. */
function linesOf(text: string): readonly (readonly string[])[] {
  return text.split("\n").map((line) => (line.split(/[#;]/u, 1)[0] ?? "").split(/\s+/u).filter((word) => word !== ""));
}

function bare(name: string): string {
  return name.toLowerCase().replace(/\.$/u, "");
}
