/** Checks of the API server, the permissions there, and the clocks. */
import type { ClusterIdentity } from "@deltaloop/kube/client";
import { isListedId } from "@deltaloop/controllers/configuration";
import { SUPPORTED_VERSIONS, unsupported } from "../cluster/kubernetes-versions.ts";
import type { ApiFacts, Facts, RoleFacts } from "./facts.ts";
import { failure, notChecked, ok, warning } from "./finding.ts";
import type { Finding } from "./finding.ts";
import { listOf, spanOf } from "./words.ts";

const SKEW_WARNING_MS = 5_000;
/** AWS rejects requests whose signer's clock differs by more than this. */
const SKEW_FAILURE_MS = 300_000;

export function judgeApi(facts: Facts): readonly Finding[] {
  const { version } = facts.api;
  if (version.kind === "unseen") {
    const remedy =
      "Check the API server's address, its certificate authority and the credentials, from where the watcher and the functions run.";
    return [
      failure("api.answers", `no answer: ${version.why}`, remedy),
      ...(["api.version", "api.cluster"] as const).map((check) => notChecked(check, "the API server does not answer")),
    ];
  }
  const { server, gitVersion } = version.value;
  return [
    ok("api.answers", `${server} responds in ${version.tookMs} ms`, { number: version.tookMs }),
    judgeVersion(gitVersion, facts),
    judgeIdentity(facts),
  ];
}

/** The watcher refuses to act on an unsupported version at its next start, even if it currently acts. */
function judgeVersion(gitVersion: string, { mode, kubernetes }: Facts): Finding {
  const minor = /^v?\d+\.(\d+)/.exec(gitVersion)?.[1];
  const number = minor === undefined ? {} : { number: Number(minor) };
  const why = unsupported(gitVersion);
  if (why === undefined) return ok("api.version", `Kubernetes ${gitVersion}`, number);
  const { from, to } = SUPPORTED_VERSIONS;
  const use = `Use ${from} to ${to}, or a deltaloop that knows this version`;
  if (mode === "act" && kubernetes !== "any")
    return failure("api.version", why, `${use}: the watcher does not start again here unless DELTALOOP_KUBERNETES is any.`, number);
  return warning("api.version", why, `${use}, and try a rollout first.`, number);
}

function judgeIdentity({ api: { identity }, cluster, cache: { epoch } }: Facts): Finding {
  if (identity.kind === "unseen") return notChecked("api.cluster", identity.why);
  if (isListedId(cluster)) return judgeListed(identity.value, cluster, epoch);
  const { cid } = identity.value;
  if (cid === cluster) return ok("api.cluster", `cluster ${cid}`);
  const remedy = "Point both at one cluster: set DELTALOOP_CLUSTER to this API server's id, or use the other cluster's address.";
  return failure("api.cluster", `this API server's cluster is ${cid}, DELTALOOP_CLUSTER is ${cluster}`, remedy);
}

/** The id of a listed cluster is from its kubeconfig; the watcher identifies the cluster by the UID in the epoch. */
function judgeListed({ uid }: ClusterIdentity, cluster: string, epoch: Facts["cache"]["epoch"]): Finding {
  if (epoch.kind === "unseen") return notChecked("api.cluster", epoch.why);
  if (epoch.value === undefined) return notChecked("api.cluster", "there is no epoch to compare");
  const { clusterUid } = epoch.value;
  if (uid === clusterUid) return ok("api.cluster", `cluster ${cluster} has the UID of its epoch`);
  return failure(
    "api.cluster",
    `kube-system has UID ${uid}, in the epoch ${clusterUid}: another cluster has this address now`,
    "Check again in a minute: the watcher opens a new epoch; if the difference persists, read the log of the watcher.",
  );
}

/** A role is checked with its own credentials. If other credentials are used instead, they prove nothing about the role. */
export function judgeRights(roles: readonly RoleFacts[]): readonly Finding[] {
  return roles.map(({ role, seen }) => {
    const of = { of: role };
    if (seen.kind === "unseen") return notChecked("permissions", seen.why, of);
    const { user, rights } = seen.value;
    const lacking = rights.filter(({ allowed }) => !allowed).map(({ what }) => what);
    const number = { ...of, number: lacking.length };
    if (user !== role && !user.endsWith(`:${role}`)) {
      const context = `no credentials of the role (a context ${role} in the kubeconfig, or its token)`;
      if (lacking.length === 0) return notChecked("permissions", `${context}; ${user} has all ${rights.length} permissions`, number);
      const remedy = `If the role runs as ${user}, run kubectl apply -f infra/manifests/rbac.yaml; otherwise check again with the role's own credentials.`;
      return warning("permissions", `${context}; ${user} lacks ${listOf(lacking)}`, remedy, number);
    }
    if (lacking.length === 0) return ok("permissions", `${rights.length} of ${rights.length}`, number);
    return failure(
      "permissions",
      `lacks ${listOf(lacking)}`,
      "Grant each role its permissions: kubectl apply -f infra/manifests/rbac.yaml.",
      number,
    );
  });
}

export function judgeClocks({ api, server }: Facts): readonly Finding[] {
  const skew = apiSkewMs(api);
  if (skew === undefined) {
    const why = api.version.kind === "unseen" ? "the API server does not answer" : "its response has no Date header";
    return [notChecked("clock.local", why), notChecked("clock.redis", why)];
  }
  const local = judgeSkew("clock.local", "this machine", -skew);
  if (server.kind === "unseen") return [local, notChecked("clock.redis", "Redis does not answer")];
  return [local, judgeSkew("clock.redis", "Redis", server.value.timeMs - (server.atMs + skew))];
}

/** How far the API server is ahead of this machine. Its Date has whole seconds, so half a second is added as an estimate. */
export function apiSkewMs({ version }: ApiFacts): number | undefined {
  if (version.kind === "unseen" || version.value.dateMs === undefined) return undefined;
  return version.value.dateMs + 500 - version.atMs;
}

function judgeSkew(check: "clock.local" | "clock.redis", whose: string, aheadMs: number): Finding {
  const number = { number: Math.round(aheadMs) };
  const off = Math.abs(aheadMs);
  const direction = aheadMs > 0 ? "ahead of" : "behind";
  // Date has a resolution of one second.
  if (off < SKEW_WARNING_MS) return ok(check, `${whose} agrees with the API server within ${off < 1_000 ? "1 s" : spanOf(off)}`, number);
  const seen = `${whose} is ${spanOf(off)} ${direction} the API server`;
  if (check === "clock.redis")
    return warning(
      check,
      seen,
      "Synchronise both (NTP): queue, gates and leases use only Redis' clock and stay correct, but timestamps differ.",
      number,
    );
  if (off < SKEW_FAILURE_MS)
    return warning(
      check,
      seen,
      "Synchronise clocks (NTP): minReadySeconds and progress deadlines depend on the clock of the functions.",
      number,
    );
  return failure(
    check,
    seen,
    "Synchronise clocks (NTP): AWS refuses requests that are signed five minutes off, and tokens and certificates look expired.",
    number,
  );
}
