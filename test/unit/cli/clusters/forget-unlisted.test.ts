/** Caches of clusters that are no longer listed when the watcher starts. Catches: a cache that is deleted while its cluster is served. */
import { expect, it } from "vitest";

import { forgetUnlisted, UNLISTED_MS } from "../../../../cli/watch/forget-unlisted.ts";
import type { ForgetUnlistedPorts } from "../../../../cli/watch/forget-unlisted.ts";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { silentLog } from "../../../support/silent-log.ts";

const [LISTED, GONE] = ["a".repeat(32), "b".repeat(32)];
/** The id of a deployment for one cluster. */
const SINGLE = "0123456789ab";

interface Row {
  readonly name: string;
  readonly listed?: readonly string[];
  readonly led?: ReadonlySet<string> | "unknown";
  readonly hasRejected?: boolean;
  readonly want: readonly string[];
}

const ROWS: readonly Row[] = [
  { name: "deletes the cache of a cluster that is not listed", want: [GONE] },
  { name: "keeps the cache of a cluster that another watcher leads", led: new Set([GONE]), want: [] },
  { name: "keeps all while it is unknown what others lead", led: "unknown", want: [] },
  { name: "keeps all for an empty folder, which may not be mounted", listed: [], want: [] },
  { name: "keeps all while a kubeconfig is rejected", hasRejected: true, want: [] },
  { name: "deletes nothing if all are listed", listed: [LISTED, GONE], want: [] },
];

it.each(ROWS)("$name", async ({ listed = [LISTED], led = new Set(), hasRejected = false, want }) => {
  const clock = createVirtualClock(0);
  const forgotten: string[] = [];
  const ports: ForgetUnlistedPorts = {
    ...{ clock, log: silentLog, hasRejected: () => hasRejected },
    directory: { list: () => listed.map((cid) => ({ cid, name: cid, server: "https://x", kubeconfig: "/x", isPaused: false })) },
    cached: async () => await Promise.resolve([LISTED, GONE, SINGLE]),
    ledByOthers: () => (led === "unknown" ? undefined : led),
    forget: async (cid) => void (await Promise.resolve(forgotten.push(cid))),
  };
  const ended = forgetUnlisted(ports, new AbortController().signal);
  await clock.advance(UNLISTED_MS - 1);
  expect(forgotten).toEqual([]);
  await clock.advance(1);
  await ended;
  expect(forgotten).toEqual(want);
});
