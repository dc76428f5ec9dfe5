/** Caches of clusters that are no longer listed when the watcher starts. Catches: a cache that is deleted while its cluster is served. */
import { expect, it } from "vitest";

import { forgetUnlisted, LOOK_AGAIN_MS, UNLISTED_MS } from "../../../../cli/watch/forget-unlisted.ts";
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
  readonly hasProblems?: boolean;
  readonly want: readonly string[];
}

const ROWS: readonly Row[] = [
  { name: "deletes the cache of a cluster that is not listed", want: [GONE] },
  { name: "keeps the cache of a cluster that another watcher leads", led: new Set([GONE]), want: [] },
  { name: "keeps all while it is unknown what others lead", led: "unknown", want: [] },
  { name: "keeps all for an empty folder, which may not be mounted", listed: [], want: [] },
  { name: "keeps all while a kubeconfig is rejected", hasProblems: true, want: [] },
  { name: "deletes nothing if all are listed", listed: [LISTED, GONE], want: [] },
];

interface Scene {
  readonly listed?: readonly string[];
  readonly led?: Row["led"];
  /** Clusters with a cache. */
  readonly cached?: () => readonly string[];
  readonly hasProblems?: () => boolean;
}

function scene({ listed = [LISTED], led = new Set(), cached = () => [LISTED, GONE, SINGLE], hasProblems = () => false }: Scene) {
  const clock = createVirtualClock(0);
  const forgotten: string[] = [];
  const ends = new AbortController();
  const ports: ForgetUnlistedPorts = {
    ...{ clock, log: silentLog },
    directory: {
      hasProblems,
      list: () => listed.map((cid) => ({ cid, name: cid, server: "https://x", kubeconfig: "/x", isPaused: false })),
    },
    cached: async () => await Promise.resolve(cached().filter((cid) => !forgotten.includes(cid))),
    ledByOthers: () => (led === "unknown" ? undefined : led),
    forget: async (cid) => void (await Promise.resolve(forgotten.push(cid))),
  };
  const ended = forgetUnlisted(ports, ends.signal);
  const end = async (): Promise<void> => {
    ends.abort(new Error("stopped"));
    await ended;
  };
  return { clock, forgotten, end };
}

it.each(ROWS)("$name", async ({ want, hasProblems = false, ...row }) => {
  const { clock, forgotten, end } = scene({ ...row, hasProblems: () => hasProblems });
  await clock.advance(UNLISTED_MS - 1);
  expect(forgotten).toEqual([]);
  await clock.advance(1);
  expect(forgotten).toEqual(want);
  await end();
});

it("looks again every ten minutes, since a rejected kubeconfig may be repaired", async () => {
  let hasProblems = true;
  const { clock, forgotten, end } = scene({ hasProblems: () => hasProblems });
  await clock.advance(UNLISTED_MS);
  hasProblems = false;
  await clock.advance(LOOK_AGAIN_MS + UNLISTED_MS - 1);
  expect(forgotten).toEqual([]);
  await clock.advance(1);
  expect(forgotten).toEqual([GONE]);
  await end();
});

it("keeps the cache of a cluster that another watcher has just begun to serve, until this directory lists it", async () => {
  const listed = [LISTED];
  let looks = 0;
  const { clock, forgotten, end } = scene({ listed, cached: () => (++looks > 1 ? [LISTED, GONE, SINGLE] : [LISTED, SINGLE]) });
  while (looks < 2) await clock.advance(1_000);
  await clock.advance(UNLISTED_MS / 2); // the other watcher has not reported what it leads
  listed.push(GONE);
  await clock.advance(LOOK_AGAIN_MS);
  expect(forgotten).toEqual([]);
  await end();
});
