// Would catch: a wrong status code for a probe, a reason in a response, a check that delays the response, and a server that listens on
// another address.
import { afterEach, describe, expect, it } from "vitest";
import { informerSyncCheck, shutdownCheck, storeCheck } from "../../../../cli/health/health-checks.ts";
import { healthAnswer } from "../../../../cli/health/healthz.ts";
import type { HealthCheck } from "../../../../cli/health/healthz.ts";
import { serveMetrics, METRICS_LISTEN } from "../../../../cli/health/metrics-server.ts";
import type { MetricsServer } from "../../../../cli/health/metrics-server.ts";
import { createPrometheusMetrics } from "../../../../shared/base/prometheus/registry.ts";
import { recordingLog } from "../../recording-log.ts";

describe("healthAnswer responds like upstream's components", () => {
  const names = ["ping", "redis", "leaderElection"];
  const fine = [{ name: "ping" }, { name: "redis" }, { name: "leaderElection", note: "not leading" }];
  const ill = [{ name: "ping" }, { name: "redis", failure: "redis://user:secret@host is away" }, { name: "leaderElection" }];
  const table = [
    { name: "returns ok", checked: fine, verbose: false, excluded: [], want: { code: 200, body: "ok" } },
    {
      name: "lists the checks when verbose is requested",
      checked: fine,
      verbose: true,
      excluded: [],
      want: { code: 200, body: "[+]ping ok\n[+]redis ok\n[+]leaderElection ok: not leading\nreadyz check passed\n" },
    },
    {
      name: "always lists the checks on failure, and never the reason",
      checked: ill,
      verbose: false,
      excluded: [],
      want: { code: 500, body: "[+]ping ok\n[-]redis failed: reason withheld\n[+]leaderElection ok\nreadyz check failed\n" },
    },
    {
      name: "reports excluded checks as ok, and warns about unknown ones",
      checked: [{ name: "ping" }, { name: "leaderElection" }],
      verbose: true,
      excluded: ["redis", "nonsense"],
      want: {
        code: 200,
        body: '[+]ping ok\n[+]redis excluded: ok\n[+]leaderElection ok\nwarn: some health checks cannot be excluded: no matches for "nonsense"\nreadyz check passed\n',
      },
    },
  ];
  it.each(table)("healthAnswer $name", ({ checked, verbose, excluded, want }) => {
    expect(healthAnswer("readyz", names, checked, { verbose, excluded })).toEqual(want);
  });
});

describe("the checks", () => {
  const gate = (open: boolean) => () => Promise.resolve(open ? ({ open } as const) : ({ open, reason: "pods are SYNCING" } as const));

  it("readyz fails while a gate is closed, except on a standby replica", async () => {
    await expect(informerSyncCheck({ gate: gate(true) }).check()).resolves.toBe("3 gates open");
    await expect(informerSyncCheck({ gate: gate(false) }).check()).rejects.toThrow("pods are SYNCING");
    await expect(informerSyncCheck({ gate: gate(false) }, () => "not leading").check()).resolves.toBe("not leading");
  });

  it("the check of the Store fails while it is unavailable, and reports that it has no epoch yet", async () => {
    await expect(storeCheck({ epoch: () => Promise.reject(new Error("unavailable")) }).check()).rejects.toThrow("unavailable");
    await expect(storeCheck({ epoch: () => Promise.resolve(undefined) }).check()).resolves.toBe("no epoch yet");
  });

  it("a process that is shutting down is not ready", async () => {
    const ends = new AbortController();
    await expect(shutdownCheck(ends.signal).check()).resolves.toBeUndefined();
    ends.abort(new Error("SIGTERM"));
    await expect(shutdownCheck(ends.signal).check()).rejects.toThrow("shutting down");
  });
});

describe("the server", () => {
  let server: MetricsServer | undefined;
  const log = recordingLog();
  const serve = async (readyz: readonly HealthCheck[], sample?: () => Promise<void>): Promise<string> => {
    server = await serveMetrics({
      listen: METRICS_LISTEN,
      metrics: createPrometheusMetrics("watcher"),
      livez: [],
      readyz,
      log,
      ...(sample && { sample }),
    });
    return server.address;
  };
  afterEach(async () => server?.stop());

  it("listens on loopback, and serves the metrics that need no Store while the Store is unavailable", async () => {
    const address = await serve([], () => Promise.reject(new Error("unavailable")));
    expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const answer = await fetch(`${address}/metrics`);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/plain; version=0.0.4; charset=utf-8"]);
    expect(await answer.text()).toContain("# TYPE deltaloop_checkpoints_total counter\n");
  });

  it("TL2 fails a hanging check after 2 s with the reason in the log, and does not run it for livez", async () => {
    const address = await serve([{ name: "redis", check: () => new Promise(() => undefined) }]);
    expect((await fetch(`${address}/livez`)).status).toBe(200);
    const answer = await fetch(`${address}/readyz`);
    expect([answer.status, await answer.text()]).toEqual([500, "[+]ping ok\n[-]redis failed: reason withheld\nreadyz check failed\n"]);
    expect(log.lines.at(-1)).toMatchObject({
      message: "health check failed",
      fields: { check: "redis", why: "no response within 2000 ms" },
    });
    expect((await fetch(`${address}/readyz?exclude=redis`)).status).toBe(200);
    expect((await fetch(`${address}/readyz/ping`)).status).toBe(200);
  });

  it("TL1 serves only GET, and only these paths", async () => {
    const address = await serve([]);
    const codes = async (path: string, method = "GET") => (await fetch(`${address}${path}`, { method })).status;
    expect(await codes("/metrics", "POST")).toBe(405);
    expect(await codes("/readyz/nonsense")).toBe(404);
    expect(await codes("/debug/pprof")).toBe(404);
  });

  it("reports an address that it cannot listen on", async () => {
    await expect(
      serveMetrics({ listen: "nowhere", metrics: createPrometheusMetrics("watcher"), livez: [], readyz: [], log }),
    ).rejects.toThrow("nowhere is not host:port");
  });
});
