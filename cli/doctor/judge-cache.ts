/** Checks of the watcher and the cache: leader, gates, lag of the streams, and items that could not be applied. */
import { compareResourceVersions, minResourceVersion } from "@deltaloop/kube/objects";
import type { LaneFacts, StreamFacts } from "@deltaloop/store/redis";
import { isForeign } from "@deltaloop/controllers/cache";
import { describeStop, stoppedNamespaces, EPOCHS_MAX, EPOCHS_REASON } from "@deltaloop/store/ports";
import { SWITCH_OFF } from "../cluster/end-on-foreign-write.ts";
import { apiSkewMs } from "./judge-api.ts";
import type { ApiFacts, AuditFacts, ControllerFacts, Facts, Seen } from "./facts.ts";
import { failure, notChecked, ok, warning } from "./finding.ts";
import type { Check, Finding } from "./finding.ts";
import { listOf, spanOf } from "./words.ts";

/** The watcher sends each lane a heartbeat every 15 s; the gate closes after 60 s of silence (informer §11.6). */
const [SILENCE_WARNING_MS, SILENCE_FAILURE_MS] = [25_000, 60_000];
const DAY_MS = 86_400_000;

export function judgeWatcher(facts: Facts): readonly Finding[] {
  const { mode, api } = facts;
  if (mode === "shadow") {
    return [
      warning(
        "watcher.mode",
        "shadow: deltaloop computes writes but sends none",
        "Set DELTALOOP_MODE=act for watcher and functions after you have switched off the cluster's own three controllers.",
      ),
      notChecked("watcher.lease", "shadow takes no Lease"),
      notChecked("watcher.guard", "shadow mode has no guard"),
      notChecked("watcher.fence", "shadow takes no Lease"),
      notChecked("watcher.lineage", "shadow takes no Lease"),
    ];
  }
  const lease = judgeLease(api);
  return [ok("watcher.mode", "act"), lease, judgeGuard(facts), judgeFence(facts), judgeLineage(facts)];
}

/** Reports a stop as a failure even if DELTALOOP_GUARD=off makes the functions ignore it. */
function judgeGuard({ guard, cache, api: { canary } }: Facts): Finding {
  if (cache.guard.kind === "unseen") return notChecked("watcher.guard", cache.guard.why);
  const { stop } = cache.guard.value;
  if (stop?.kind === "unbelieved")
    return failure(
      "watcher.guard",
      describeStop(stop),
      "Remove the other writer of Redis (docs/internals/threat-model.md), or use one DELTALOOP_MAC_KEY for watcher and functions; then run deltaloop resume.",
    );
  if (stop)
    return failure(
      "watcher.guard",
      describeStop(stop),
      `Stop the other controller (upstream's: ${SWITCH_OFF}), then run deltaloop resume.`,
    );
  const stopped = stoppedNamespaces(cache.guard.value);
  const [first] = stopped;
  if (first)
    return failure(
      "watcher.guard",
      `${first[0]}${stopped.size > 1 ? ` and ${stopped.size - 1} more namespaces` : ""}: ${describeStop(first[1])}`,
      "Find the client that writes statuses there, stop it, then run deltaloop resume --namespace NAME.",
      { number: stopped.size },
    );
  if (guard === "off")
    return warning(
      "watcher.guard",
      "off: writes of another controller are not detected",
      "Set DELTALOOP_GUARD=on for watcher and functions, unless something else detects such writes.",
    );
  if (canary.seen.kind === "seen" && !canary.seen.value)
    return warning(
      "watcher.guard",
      `there is no ReplicaSet ${canary.name}: a cluster-wide controller would stop only the namespaces in which it writes`,
      "Run kubectl apply -f infra/manifests/canary.yaml.",
    );
  return ok("watcher.guard", "no other controller was seen");
}

function judgeLease(api: ApiFacts): Finding {
  const { name, seen } = api.lease;
  if (seen.kind === "unseen") return notChecked("watcher.lease", seen.why);
  const start = "Start `deltaloop watch`, or check its log for the reason that it exits";
  if (seen.value === undefined)
    return failure("watcher.lease", `there is no Lease ${name}`, `${start}; pass the namespace of its Lease with --lease-namespace.`);
  const { holder, renewedAtMs, durationSeconds } = seen.value;
  if (holder === "") return failure("watcher.lease", `${name} has no holder`, `${start}.`);
  const ageMs = seen.atMs + (apiSkewMs(api) ?? 0) - renewedAtMs;
  const number = { number: Math.round(ageMs / 1000) };
  const text = `${name} held by ${holder}, renewed ${spanOf(ageMs)} ago`;
  if (ageMs <= durationSeconds * 1000) return ok("watcher.lease", text, number);
  return failure("watcher.lease", text, `${start}: the holder of the Lease has stopped, or does not reach the API server.`, number);
}

/** The fence is the version of an acquiring write, so the Lease's present version can only be newer (informer §14). */
function judgeFence({ api, cache }: Facts): Finding {
  const { streams } = cache;
  if (streams.kind === "unseen") return notChecked("watcher.fence", streams.why);
  const fences = [...new Set(streams.value.flatMap(({ fence }) => fence ?? []))];
  const [fence] = fences;
  if (fence === undefined) return notChecked("watcher.fence", "no stream was opened yet");
  if (fences.length > 1)
    return warning(
      "watcher.fence",
      `the streams have ${fences.length} fences: ${fences.join(", ")}`,
      "Check again in a few seconds: a watcher that takes over raises every fence; if the difference persists, check its log.",
    );
  const { seen } = api.lease;
  if (seen.kind === "unseen" || seen.value === undefined)
    return notChecked("watcher.fence", `${fence}; there is no Lease to compare it with`);
  if (compareResourceVersions(fence, seen.value.resourceVersion) > 0)
    return failure(
      "watcher.fence",
      `${fence}, the Lease is at ${seen.value.resourceVersion}`,
      "Delete the Redis key ep, so that a new epoch starts from a list: the API server was restored to an older state, and no watcher can raise this fence.",
    );
  return ok("watcher.fence", `fence ${fence}`);
}

/** A clone or a restored backup has the same cluster id, keys and Redis, but a different history of terms (informer §11.11). */
function judgeLineage({ api, cache }: Facts): Finding {
  const remedy =
    "Find the other cluster (a clone, a restored backup) or the second Lease of this deployment (DELTALOOP_LEASE_NAMESPACE differs), stop its watcher and functions, then run deltaloop resume --lineage against the right one.";
  const { lineage } = cache;
  if (lineage.kind === "unseen") return notChecked("watcher.lineage", lineage.why);
  const { current, recentEpochs } = lineage.value;
  if (recentEpochs >= EPOCHS_MAX) return failure("watcher.lineage", `${EPOCHS_REASON}: all gates are closed`, remedy);
  const { seen } = api.lease;
  if (seen.kind === "unseen" || seen.value === undefined || current === undefined)
    return notChecked("watcher.lineage", "there is no Lease or no epoch to compare");
  if (isForeign(current, { lease: { listed: seen.value.terms, minted: new Set() } }))
    return failure("watcher.lineage", "two clusters share this cache: the Lease does not list the epoch's term", remedy);
  return ok(
    "watcher.lineage",
    current.token ? "the Lease lists the epoch's term" : "an older build, without support for terms, opened the epoch",
  );
}

export function judgeCache(facts: Facts): readonly Finding[] {
  const { epoch, streams, quarantine, forgeries, controllers } = facts.cache;
  const nowMs = redisNowMs(facts);
  const first = judgeEpoch(facts);
  const lagging = (check: "cache.lag" | "cache.lanes", judge: (stream: StreamFacts, now: number) => Finding): readonly Finding[] => {
    if (epoch.kind === "unseen") return [notChecked(check, epoch.why)];
    if (epoch.value === undefined) return [notChecked(check, "there is no epoch")];
    if (streams.kind === "unseen") return [notChecked(check, streams.why)];
    return nowMs === undefined ? [notChecked(check, "Redis' time is not known")] : streams.value.map((stream) => judge(stream, nowMs));
  };
  return [
    first,
    ...controllers.map(judgeGate),
    ...lagging("cache.lag", judgeLag),
    ...lagging("cache.lanes", judgeLanes),
    judgeRecent("cache.quarantine", quarantine, nowMs, {
      failing: true,
      none: "nothing in quarantine",
      each: ({ what, where, why }) => `${what} (${where}: ${why})`,
      remedy:
        "Inspect each object with kubectl or in the log of that time: its cached copy is stale until the object changes or is relisted.",
    }),
    judgeRecent("cache.forged", forgeries, nowMs, {
      failing: false,
      none: "nothing forged",
      each: ({ where, why, messageId }) => `${messageId} (${where}: ${why})`,
      remedy: "Give watcher and functions one DELTALOOP_MAC_KEY, or remove the sender of these messages (docs/internals/threat-model.md).",
    }),
  ];
}

function judgeEpoch({ cache, api }: Facts): Finding {
  const { epoch } = cache;
  if (epoch.kind === "unseen") return notChecked("cache.epoch", epoch.why);
  if (epoch.value === undefined)
    return failure(
      "cache.epoch",
      "there is no cache",
      "Start deltaloop watch; if it runs, give doctor its DELTALOOP_DEPLOYMENT, DELTALOOP_CLUSTER and DELTALOOP_REDIS_URL.",
    );
  const { identity } = api;
  if (identity.kind === "seen" && identity.value.uid !== epoch.value.clusterUid)
    return failure(
      "cache.epoch",
      `the epoch is of another cluster: kube-system ${epoch.value.clusterUid}`,
      "Start deltaloop watch against this API server: it opens a new epoch.",
    );
  return ok("cache.epoch", `epoch ${epoch.value.epoch}`);
}

/** The remedy for each reason of the gate (shared/store/redis/scripts/lib/gate.lua). */
const GATE_REMEDIES: readonly (readonly [said: RegExp, remedy: string])[] = [
  [/there is no epoch/, "Start deltaloop watch: it opens the epoch and lists."],
  [
    /^the epoch has/,
    "Run the watcher, the functions and doctor with the same build and the same DELTALOOP_DIGEST_KEY; the watcher then opens a new epoch.",
  ],
  [/another primary/, "Wait 15 s: the watcher relists; if it stays closed, check the watcher's log."],
  [/: (INIT|SYNCING)/, "Wait for the first list; if it takes longer than a minute, check the watcher's log and the queue deltas."],
  [
    /: SUSPECT/,
    "Wait 15 s: the watcher relists; if it stays closed, the watcher does not run, or its messages are not applied: see watcher.lease and queue.depth.",
  ],
  [/silent/, "No heartbeats arrive: check whether the watcher (watcher.lease) and apply-deltas (queue.depth of deltas) run."],
  [/hole/, "Wait 15 s: the watcher raises the fence and lists; if it stays closed, check the watcher's log."],
];

function judgeGate({ controller, gate }: ControllerFacts): Finding {
  const of = { of: controller };
  if (gate.kind === "unseen") return notChecked("cache.gate", gate.why, of);
  if (gate.value.open) return ok("cache.gate", "gate open", of);
  const { reason } = gate.value;
  const remedy = GATE_REMEDIES.find(([said]) => said.test(reason))?.[1] ?? "Check the watcher's log.";
  return failure("cache.gate", `closed: ${reason}`, remedy, of);
}

function judgeLag({ resource, state, sentRV, lanes }: StreamFacts, nowMs: number): Finding {
  const of = { of: resource };
  const applied = lanes.flatMap(({ appliedAtMs }) => appliedAtMs ?? []);
  if (applied.length < lanes.length || lanes.length === 0)
    return failure(
      "cache.lag",
      `${state}, no message was ever applied in ${lanes.length - applied.length} of ${lanes.length} lanes`,
      "Check whether apply-deltas runs: its event source mapping, its errors, and the messages that wait in queue deltas.",
      of,
    );
  const silentMs = Math.max(0, nowMs - Math.min(...applied));
  const reached = lanes.map(({ watermark }) => watermark).reduce(minResourceVersion);
  const seen = `${state}, last message ${spanOf(silentMs)} ago, sent ${sentRV ?? "-"}, applied ${reached}`;
  const more = { ...of, number: Math.round(silentMs / 1000) };
  if (silentMs < SILENCE_WARNING_MS) return ok("cache.lag", seen, more);
  const remedy = "Check whether the watcher (watcher.lease) sends and apply-deltas applies (queue.depth of deltas).";
  return silentMs < SILENCE_FAILURE_MS ? warning("cache.lag", seen, remedy, more) : failure("cache.lag", seen, remedy, more);
}

function judgeLanes({ resource, lanes }: StreamFacts, nowMs: number): Finding {
  const isUnwell = ({ frozen, holeSinceMs }: LaneFacts): boolean => frozen || holeSinceMs !== undefined;
  const unwell = lanes.flatMap((lane, index) => (isUnwell(lane) ? [{ ...lane, index }] : []));
  const more = { of: resource, number: unwell.length };
  if (unwell.length === 0) return ok("cache.lanes", "no hole", more);
  const words = unwell.map(
    ({ index, frozen, holeSinceMs }) =>
      `lane ${index} ${frozen ? "frozen" : ""}${frozen && holeSinceMs !== undefined ? ", " : ""}${holeSinceMs === undefined ? "" : `with a hole for ${spanOf(nowMs - holeSinceMs)}`}`,
  );
  return warning(
    "cache.lanes",
    listOf(words),
    "Wait 15 s, in which the watcher lists the missing objects again, and check its log if the lane stays unhealthy.",
    more,
  );
}

/** Checks a list that only grows: entries older than a day are not reported. */
function judgeRecent<T extends { readonly atMs: number }>(
  check: Extract<Check, "cache.quarantine" | "cache.forged">,
  list: Seen<readonly T[]>,
  nowMs: number | undefined,
  words: { readonly failing: boolean; readonly none: string; readonly each: (entry: T) => string; readonly remedy: string },
): Finding {
  if (list.kind === "unseen") return notChecked(check, list.why);
  const recent = list.value.filter(({ atMs }) => atMs > (nowMs ?? list.atMs) - DAY_MS);
  const more = { number: recent.length };
  const older = list.value.length - recent.length;
  if (recent.length === 0) return ok(check, older === 0 ? words.none : `${words.none} for a day, ${older} before`, more);
  const seen = `${recent.length}: ${listOf(recent.toReversed().map(words.each))}`;
  return (words.failing ? failure : warning)(check, seen, words.remedy, more);
}

/** Returns no finding without --audit. */
export function judgeAudits({ audits = [] }: Facts): readonly Finding[] {
  return audits.map(judgeAudit);
}

function judgeAudit({ resource, seen }: AuditFacts): Finding {
  const of = { of: resource };
  if (seen.kind === "unseen") return notChecked("cache.audit", seen.why, of);
  const { differences, compared, unsettledLanes } = seen.value;
  const more = { ...of, number: differences.length };
  const lacking = unsettledLanes === 0 ? "" : `; rows without an object are not detected in ${unsettledLanes} lanes, which lag`;
  if (differences.length === 0) return ok("cache.audit", `${compared} compared, none differs${lacking}`, more);
  return failure(
    "cache.audit",
    `${differences.length} of ${compared}: ${listOf(differences.map(({ kind, key }) => `${kind} ${key}`))}${lacking}`,
    "Wait an hour: the watcher's own audit repairs them; if they recur, look for another writer of this Redis (cli/README.md lists the kinds).",
    more,
  );
}

/** Redis' present time, if known: all stored times are Redis' time. */
export function redisNowMs({ server }: Pick<Facts, "server">): number | undefined {
  return server.kind === "seen" ? server.value.timeMs : undefined;
}
