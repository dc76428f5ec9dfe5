/**
 * Responses of /healthz, /livez and /readyz, in upstream's format, which probes and users know.
 *
 * Differs from upstream: a passing check may add a remark (`[+]leaderElection ok: not leading`).
 * Source: apiserver/pkg/server/healthz/healthz.go handleRootHealth.
 */

/** Resolves with a remark when healthy; rejects with the reason, which is logged and not sent to the client. */
export interface HealthCheck {
  readonly name: string;
  readonly check: () => Promise<string | undefined>;
}

export interface Checked {
  readonly name: string;
  readonly note?: string;
  readonly failure?: string;
}

export interface HealthAnswer {
  readonly code: 200 | 500;
  readonly body: string;
}

/**
 * Formats the response of an endpoint. `endpoint`: healthz, livez or readyz. `excluded`: names from `?exclude=`; `checked`: the other
 * checks.
 */
export function healthAnswer(
  endpoint: string,
  names: readonly string[],
  checked: readonly Checked[],
  { verbose, excluded }: { readonly verbose: boolean; readonly excluded: readonly string[] },
): HealthAnswer {
  const lines = names.map((name) => {
    if (excluded.includes(name)) return `[+]${name} excluded: ok`;
    const found = checked.find((each) => each.name === name);
    if (found === undefined || found.failure !== undefined) return `[-]${name} failed: reason withheld`;
    return `[+]${name} ok${found.note === undefined ? "" : `: ${found.note}`}`;
  });
  const unknown = excluded.filter((name) => !names.includes(name)).toSorted();
  if (unknown.length > 0)
    lines.push(`warn: some health checks cannot be excluded: no matches for ${unknown.map((name) => JSON.stringify(name)).join(", ")}`);
  if (checked.some(({ failure }) => failure !== undefined)) return { code: 500, body: `${lines.join("\n")}\n${endpoint} check failed\n` };
  return { code: 200, body: verbose ? `${lines.join("\n")}\n${endpoint} check passed\n` : "ok" };
}
