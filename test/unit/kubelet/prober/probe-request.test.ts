// Would catch: a probe or hook that is sent to the wrong host or port, or without its headers, and a command that gets more environment
// variables than its container.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it, vi } from "vitest";
import { OWN_RELEASE } from "../../../../shared/kube/releases.ts";
import { hookRequest } from "../../../../shared/node-agent/kubelet/kuberuntime/lifecycle-hooks.ts";
import type { HookRequest, LifecycleHandler } from "../../../../shared/node-agent/kubelet/kuberuntime/lifecycle-hooks.ts";
import { execOutcome, probeNote, probeRequest } from "../../../../shared/node-agent/kubelet/prober/probe-request.ts";
import type { ProbeRequest } from "../../../../shared/node-agent/kubelet/prober/probe-request.ts";
import type { ProbeSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import type { HttpProbe } from "../../../../shared/node-agent/ports/prober.ts";
import { containerSpec } from "../fixtures.ts";

const POD_IP = "10.0.0.12";
const container = containerSpec("app", {
  ports: [{ containerPort: 1 }, { name: "web", containerPort: 8080, hostPort: 80 }, { name: "9", containerPort: 9090 }],
  env: [
    { name: "A", value: "a" },
    { name: "EMPTY" },
    { name: "REFERENCE", value: "$(A)" },
    { name: "SECRET", valueFrom: { secretKeyRef: { name: "s", key: "k" } } },
  ],
});
const DEFAULTS = [
  { name: "User-Agent", value: `kube-probe/${OWN_RELEASE.name}` },
  { name: "Accept", value: "*/*" },
];
const http: HttpProbe = { scheme: "HTTP", host: POD_IP, port: 8080, path: "/", headers: DEFAULTS, timeoutMs: 1000 };
const invalid = { kind: "invalid", message: expect.stringMatching(/./u) as string } as const;

describe("[node-agent 97] probeRequest", () => {
  const table: readonly { readonly name: string; readonly spec: ProbeSpec; readonly podIp?: string; readonly want: ProbeRequest }[] = [
    {
      name: "runs a command",
      spec: { exec: { command: ["cat", "/x"] } },
      want: { kind: "exec", command: ["cat", "/x"], timeoutSeconds: 1 },
    },
    {
      name: "expands variables in a command if the spec contains their values",
      spec: { exec: { command: ["$(A)$(EMPTY)", "$(REFERENCE)", "$(SECRET)", "$(OTHER)", "$$(A)"] }, timeoutSeconds: 7 },
      want: { kind: "exec", command: ["a", "$(A)", "", "$(OTHER)", "$(A)"], timeoutSeconds: 7 },
    },
    { name: "sends a GET to the pod", spec: { httpGet: { port: 8080, path: "/" } }, want: { kind: "http", request: http } },
    { name: "resolves a port name", spec: { httpGet: { port: "web", path: "/" } }, want: { kind: "http", request: http } },
    {
      name: "rejects a number in a string that is not a port name",
      spec: { httpGet: { port: "8080", path: "/" } },
      want: { kind: "invalid", message: 'port "8080" not found' },
    },
    {
      name: "rejects an invalid port number",
      spec: { tcpSocket: { port: 65_536 } },
      want: { kind: "invalid", message: "invalid port number: 65536" },
    },
    {
      name: "resolves a port name that looks like a number",
      spec: { httpGet: { port: "9", path: "/" } },
      want: { kind: "http", request: { ...http, port: 9090 } },
    },
    {
      name: "uses the host, scheme and timeout of the spec",
      spec: { httpGet: { port: 1, host: "example.test", scheme: "https" }, timeoutSeconds: 3 },
      want: { kind: "http", request: { ...http, scheme: "HTTPS", host: "example.test", port: 1, path: "", timeoutMs: 3000 } },
    },
    {
      name: "replaces default headers by those of the spec, whatever their case",
      spec: {
        httpGet: {
          port: 8080,
          path: "/",
          httpHeaders: [
            { name: "user-agent", value: "me" },
            { name: "X-A", value: "" },
          ],
        },
      },
      want: {
        kind: "http",
        request: {
          ...http,
          headers: [
            { name: "Accept", value: "*/*" },
            { name: "user-agent", value: "me" },
            { name: "X-A", value: "" },
          ],
        },
      },
    },
    {
      name: "removes default headers that the spec sets to an empty value",
      spec: {
        httpGet: {
          port: 8080,
          path: "/",
          httpHeaders: [
            { name: "Accept", value: "" },
            { name: "User-Agent", value: "" },
          ],
        },
      },
      want: { kind: "http", request: { ...http, headers: [] } },
    },
    {
      name: "opens a TCP connection",
      spec: { tcpSocket: { port: "web" } },
      want: { kind: "tcp", host: POD_IP, port: 8080, timeoutMs: 1000 },
    },
    {
      name: "opens a TCP connection to another host",
      spec: { tcpSocket: { port: 1, host: "h" } },
      want: { kind: "tcp", host: "h", port: 1, timeoutMs: 1000 },
    },
    {
      name: "sends a gRPC health check",
      spec: { grpc: { port: 5000, service: "db" }, timeoutSeconds: 2 },
      want: {
        kind: "grpc",
        request: { host: POD_IP, port: 5000, service: "db", userAgent: `kube-probe/${OWN_RELEASE.name}`, timeoutMs: 2000 },
      },
    },
    { name: "rejects an unknown port name", spec: { httpGet: { port: "nope" } }, want: invalid },
    { name: "rejects port 0", spec: { tcpSocket: { port: 0 } }, want: invalid },
    { name: "rejects port 65536", spec: { tcpSocket: { port: 65_536 } }, want: invalid },
    { name: "rejects a probe without a handler", spec: {}, want: invalid },
    { name: "rejects a probe of a pod without an address", spec: { tcpSocket: { port: 1 } }, podIp: "", want: invalid },
  ];
  it.each(table)("probeRequest: $name", ({ spec, podIp = POD_IP, want }) => {
    expect(probeRequest(spec, container, podIp)).toEqual(want);
  });
});

describe("[node-agent 98] hookRequest", () => {
  const request: HttpProbe = {
    ...http,
    headers: [
      { name: "User-Agent", value: `kube-lifecycle/${OWN_RELEASE.name}` },
      { name: "Accept", value: "*/*" },
    ],
    timeoutMs: 5000,
    fallBackToHttp: true,
    anyStatus: true,
  };
  const table: readonly {
    readonly name: string;
    readonly handler: LifecycleHandler;
    readonly podIp?: string;
    readonly want: HookRequest;
  }[] = [
    { name: "runs a command without expansion", handler: { exec: { command: ["$(A)"] } }, want: { kind: "exec", command: ["$(A)"] } },
    { name: "sleeps", handler: { sleep: { seconds: 3 } }, want: { kind: "sleep", seconds: 3 } },
    { name: "sends a GET to the pod", handler: { httpGet: { port: "web", path: "/" } }, want: { kind: "http", request } },
    {
      name: "uses port 80 for an empty port",
      handler: { httpGet: { port: "", path: "/" } },
      want: { kind: "http", request: { ...request, port: 80 } },
    },
    {
      name: "rejects a number in a string that is not a port name",
      handler: { httpGet: { port: "8080" } },
      want: { kind: "invalid", message: 'port "8080" not found' },
    },
    { name: "rejects an unknown port name", handler: { httpGet: { port: "nope" } }, want: invalid },
    { name: "rejects a hook of a pod without an address", handler: { httpGet: { port: 1 } }, podIp: "", want: invalid },
    { name: "rejects a TCP hook", handler: { tcpSocket: { port: 1 } }, want: invalid },
    { name: "rejects a hook without a handler", handler: {}, want: invalid },
  ];
  it.each(table)("hookRequest: $name", ({ handler, podIp = POD_IP, want }) => {
    expect(hookRequest(handler, { container, podIp, timeoutMs: 5000 })).toEqual(want);
  });
});

describe("outcomes", () => {
  it("[node-agent 97] the outcome of a command contains its exit code and both its outputs, truncated", () => {
    expect(execOutcome({ exitCode: 0, stdout: "a", stderr: "b" })).toEqual({ result: "Success", output: "ab" });
    expect(execOutcome({ exitCode: 1, stdout: "x".repeat(10_000), stderr: "y".repeat(10_000) }).output).toHaveLength(10 * 1024);
    expect(execOutcome({ exitCode: 127, stdout: "", stderr: "" }).result).toBe("Failure");
  });

  it("[node-agent 486] the outcome contains at most 10 KiB of a command's output, in whole characters, and the rest is not kept in memory", async () => {
    const { output } = execOutcome({ exitCode: 1, stdout: `x${"é".repeat(10_000)}`, stderr: "" });
    expect(output).toBe(`x${"é".repeat((10 * 1024 - 2) / 2)}`);
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void; // the function that the flag exposes
    const held = (): number => {
      collect();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const before = held();
    const kept = Array.from({ length: 20 }, () =>
      execOutcome({ exitCode: 1, stdout: Buffer.alloc(8_000_000, "x").toString(), stderr: "" }),
    );
    // The whole output would be 160 MB. Buffers are freed by another thread after the collection.
    await vi.waitFor(() => expect(held() - before).toBeLessThan(80_000_000), 10_000);
    expect(kept).toHaveLength(20);
  });

  it("[node-agent 85] emits Events for a failure, an error and a warning, but not for a success", () => {
    expect(probeNote("liveness", { result: "Success", output: "ok" })).toBeUndefined();
    const note = { type: "Warning", reason: "Unhealthy" };
    expect(probeNote("liveness", { result: "Failure", output: "no" })).toEqual({ ...note, message: "Liveness probe failed: no" });
    expect(probeNote("readiness", { result: "error", output: "no" })).toEqual({
      ...note,
      message: "Readiness probe errored and resulted in unknown state: no",
    });
    expect(probeNote("startup", { result: "Success", output: "moved", warning: true })).toEqual({
      type: "Warning",
      reason: "ProbeWarning",
      message: "Startup probe warning: moved",
    });
  });
});
