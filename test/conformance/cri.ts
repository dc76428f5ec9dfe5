/** The conformance suite of the container runtime port (shared/node-agent/ports/cri.ts). */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

import { isDeadlineExceeded, isNotFound, isUnimplemented } from "../../shared/node-agent/ports/cri-error.ts";
import type { ContainerConfig, ContainerStatus, PodSandboxConfig, StringMap } from "../../shared/node-agent/ports/cri-types.ts";
import type { Cri } from "../../shared/node-agent/ports/cri.ts";

export type Program = Pick<ContainerConfig, "image" | "command" | "args">;

export interface CriUnderTest {
  readonly cri: Cri;
  readonly programs: {
    /**
     * Runs until it gets the stop signal, then exits with 0. `serve` and `stubborn` write a line with `listening` once they handle signals.
     */
    readonly serve: Program;
    /** Ignores the stop signal and runs until it is killed. */
    readonly stubborn: Program;
    /** Writes `ending with 3` to stdout and `goodbye` to stderr, and exits with 3 after 1.5 s. */
    readonly exit: Program;
  };
  /** A command for `serve` or `stubborn` that writes `ending with 3` to stdout and immediately exits with 3. */
  readonly failingCommand: readonly string[];
  /** A command that takes 5 s. */
  readonly longCommand: readonly string[];
  /** An image that no registry has; its pull fails immediately. */
  readonly absentImage: string;
  /** The configuration that the runtime needs besides metadata and labels; the log directory exists. */
  sandboxBase(): Pick<PodSandboxConfig, "logDirectory" | "linux">;
  readLog(path: string): Promise<string>;
  /** Waits for a promise; advances a virtual clock meanwhile. */
  within<T>(promise: Promise<T>): Promise<T>;
  elapse(ms: number): Promise<void>;
  /** The time by the runtime's clock. */
  nowMs(): number;
  /** Kills the runtime and starts it again. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

const NETWORK_NODE = { network: "NODE", pid: "CONTAINER", ipc: "POD" } as const;
const NETWORK_POD = { network: "POD", pid: "CONTAINER", ipc: "POD" } as const;
const WAIT_MS_MAX = 20_000;

export function criConformance(name: string, open: () => Promise<CriUnderTest>): void {
  describe(`cri on ${name}`, () => {
    let underTest: CriUnderTest;
    let cri: Cri;
    let pods = 0;
    beforeAll(async () => {
      underTest = await open();
      cri = underTest.cri;
    });
    afterEach(async () => {
      await Promise.all((await cri.listPodSandbox()).map(({ id }) => cri.removePodSandbox(id)));
    });
    afterAll(async () => {
      await underTest.close();
    });

    const sandboxConfig = (labels: StringMap = {}, network: "POD" | "NODE" = "POD", attempt = 0): PodSandboxConfig => {
      const { logDirectory, linux } = underTest.sandboxBase();
      const uid = `uid-${++pods}`;
      const namespaceOptions = network === "POD" ? NETWORK_POD : NETWORK_NODE;
      return {
        metadata: { name: "pod", namespace: "suite", uid, attempt },
        ...(network === "POD" && { hostname: "pod" }),
        ...(logDirectory !== undefined && { logDirectory }),
        labels: { uid, ...labels },
        annotations: { note: "kept" },
        linux: { ...linux, securityContext: { namespaceOptions } },
      };
    };
    const containerConfig = (program: Program, rest: Partial<ContainerConfig> = {}): ContainerConfig => ({
      metadata: { name: "main", attempt: 0 },
      ...program,
      ...rest,
    });
    const until = async <T>(what: string, look: () => Promise<T | undefined>): Promise<T> => {
      for (let waitedMs = 0; waitedMs < WAIT_MS_MAX; waitedMs += 100) {
        const found = await look();
        if (found !== undefined) return found;
        await underTest.elapse(100);
      }
      throw new Error(`timed out after ${WAIT_MS_MAX} ms: ${what}`);
    };
    /** Creates a sandbox with one started container; waits until the program handles signals, unless it is `exit`. */
    const started = async (program: Program) => {
      const config = sandboxConfig();
      const sandbox = await cri.runPodSandbox(config);
      const id = await cri.createContainer(sandbox, containerConfig(program, { logPath: `${config.metadata.uid}.log` }), config);
      await cri.startContainer(id);
      const { logPath } = await cri.containerStatus(id);
      const isListening = async (): Promise<true | undefined> => (await underTest.readLog(logPath)).includes("listening") || undefined;
      if (program !== underTest.programs.exit) await until(`${id} listens`, isListening);
      return { id, sandbox, config };
    };
    const exited = (id: string): Promise<ContainerStatus> =>
      until(`${id} has exited`, async () => {
        const status = await cri.containerStatus(id);
        return status.state === "CONTAINER_EXITED" ? status : undefined;
      });
    const states = async (): Promise<readonly string[]> => (await cri.listContainers()).map(({ state }) => state);

    it("reports its name and readiness", async () => {
      expect(await cri.version()).toMatchObject({ runtimeName: expect.stringMatching(/./), runtimeApiVersion: "v1" });
      const ready = (await cri.status()).filter(({ status }) => status).map(({ type }) => type);
      expect(ready).toEqual(expect.arrayContaining(["RuntimeReady", "NetworkReady"]));
    });

    it("CR10 returns URLs for the streams of a process and for the ports of a sandbox", async () => {
      const { id } = await started(underTest.programs.serve);
      const { podSandboxId = "" } = (await cri.listContainers({ id }))[0] ?? {};
      const attach = await cri.attach({ containerId: id, tty: false, stdin: false, stdout: true, stderr: true });
      expect(attach).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/attach\/./);
      expect(await cri.portForward(podSandboxId, [])).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/portforward\/./);
      await expect(cri.portForward("none", [])).rejects.toThrow();
    });

    it("CR11 reports its cgroup driver or returns Unimplemented", async () => {
      const answer = await cri.runtimeConfig().catch((error: unknown) => error);
      const said = isUnimplemented(answer) ? { cgroupDriver: "Unimplemented" } : answer;
      expect(said).toEqual({ cgroupDriver: expect.stringMatching(/^(SYSTEMD|CGROUPFS|Unimplemented)$/) });
    });

    it("CR2 a call for a missing object returns NotFound, undefined or no result, as its contract states", async () => {
      const config = sandboxConfig();
      for (const ask of [
        () => cri.podSandboxStatus("none"),
        () => cri.containerStatus("none"),
        () => cri.startContainer("none"),
        () => cri.containerStats("none"),
        () => cri.execSync("none", ["true"], 1),
        () => cri.updateContainerResources("none", { cpuShares: 2 }),
        () => cri.createContainer("none", containerConfig(underTest.programs.serve), config),
      ]) {
        expect(await ask().catch(isNotFound)).toBe(true);
      }
      await cri.stopPodSandbox("none");
      await cri.removePodSandbox("none");
      await cri.stopContainer("none", 1);
      await cri.removeContainer("none");
      await cri.removeImage({ image: underTest.absentImage });
      expect(await cri.imageStatus({ image: underTest.absentImage })).toBeUndefined();
    });

    it("CR13 changes only the given resources of a running container", async () => {
      const config = sandboxConfig();
      const sandbox = await cri.runPodSandbox(config);
      const resources = { cpuShares: 102, cpuPeriod: 100_000, cpuQuota: 10_000, memoryLimitInBytes: 64 * 2 ** 20 };
      const id = await cri.createContainer(sandbox, containerConfig(underTest.programs.serve, { linux: { resources } }), config);
      await cri.startContainer(id);
      expect((await cri.containerStatus(id)).resources).toMatchObject(resources);
      await cri.updateContainerResources(id, { cpuShares: 204, cpuPeriod: 100_000, cpuQuota: 20_000, memoryLimitInBytes: 0 });
      const status = await cri.containerStatus(id);
      expect(status).toMatchObject({ state: "CONTAINER_RUNNING", resources: { ...resources, cpuShares: 204, cpuQuota: 20_000 } });
      expect((await cri.containerStats(id)).memory?.usageBytes).toBeTypeOf("number");
    });

    it("CR3 CR4 runs at most one sandbox with a given name, and assigns it an IP address", async () => {
      const config = sandboxConfig({ app: "web" });
      const first = await cri.runPodSandbox(config);
      const status = await cri.podSandboxStatus(first);
      expect(status).toMatchObject({
        id: first,
        metadata: config.metadata,
        state: "SANDBOX_READY",
        labels: config.labels,
        annotations: { note: "kept" },
        namespaceOptions: { network: "POD" },
      });
      expect(status.network?.ip).toMatch(/^\d+\.\d+\.\d+\.\d+$/);
      expect(Math.abs(status.createdAtMs - underTest.nowMs())).toBeLessThan(60_000);
      await expect(cri.runPodSandbox(config)).rejects.toThrow("reserved");
      await cri.stopPodSandbox(first);
      await expect(cri.runPodSandbox(config)).rejects.toThrow("reserved");
      expect(await cri.listPodSandbox()).toHaveLength(1);
      const next = await cri.runPodSandbox({ ...config, metadata: { ...config.metadata, attempt: 1 } });
      await cri.removePodSandbox(first);
      const again = await cri.runPodSandbox(config);
      expect(new Set([first, next, again]).size).toBe(3);
    });

    it("CR4 assigns no IP address to a sandbox on the host network", async () => {
      const id = await cri.runPodSandbox(sandboxConfig({}, "NODE"));
      const status = await cri.podSandboxStatus(id);
      expect([status.state, status.network?.ip ?? "", status.namespaceOptions?.network]).toEqual(["SANDBOX_READY", "", "NODE"]);
    });

    it("CR3 CR5 creates a container, starts it once, and keeps its logs after a crash", async () => {
      const config = sandboxConfig();
      const sandbox = await cri.runPodSandbox(config);
      const container = containerConfig(underTest.programs.exit, {
        labels: { name: "main" },
        annotations: { hash: "1f" },
        logPath: "main-0.log",
      });
      const id = await cri.createContainer(sandbox, container, config);
      await expect(cri.createContainer(sandbox, container, config)).rejects.toThrow("reserved");
      const created = await cri.containerStatus(id);
      expect(created).toMatchObject({
        id,
        state: "CONTAINER_CREATED",
        metadata: { name: "main", attempt: 0 },
        annotations: { hash: "1f" },
      });
      expect([created.startedAtMs, created.finishedAtMs]).toEqual([undefined, undefined]);
      await cri.startContainer(id);
      expect((await cri.containerStatus(id)).state).toBe("CONTAINER_RUNNING");
      await expect(cri.startContainer(id)).rejects.toThrow("CONTAINER_RUNNING");
      const status = await exited(id);
      expect(status).toMatchObject({ exitCode: 3, reason: "Error", labels: { name: "main" } });
      expect((status.finishedAtMs ?? 0) - (status.startedAtMs ?? 0)).toBeGreaterThanOrEqual(1_400);
      expect(status.startedAtMs).toBeGreaterThanOrEqual(status.createdAtMs);
      await expect(cri.startContainer(id)).rejects.toThrow("CONTAINER_EXITED");
      const lines = (await underTest.readLog(status.logPath)).trimEnd().split("\n");
      expect(lines.map(withoutTime).toSorted()).toEqual(["stderr F goodbye", "stdout F ending with 3"]);
    });

    it("CR6 waits for a container that handles SIGTERM, and kills other containers after their grace period", async () => {
      const [obedient, stubborn] = [await started(underTest.programs.serve), await started(underTest.programs.stubborn)];
      await underTest.within(cri.stopContainer(obedient.id, 10));
      expect(await cri.containerStatus(obedient.id)).toMatchObject({ state: "CONTAINER_EXITED", exitCode: 0, reason: "Completed" });
      const before = underTest.nowMs();
      await underTest.within(cri.stopContainer(stubborn.id, 1));
      expect(await cri.containerStatus(stubborn.id)).toMatchObject({ state: "CONTAINER_EXITED", exitCode: 137 });
      expect(underTest.nowMs() - before).toBeGreaterThanOrEqual(990);
      await cri.stopContainer(stubborn.id, 1);
    });

    it("CR6 a later stop with a shorter grace period shortens the earlier one", async () => {
      const { id } = await started(underTest.programs.stubborn);
      const before = underTest.nowMs();
      const first = cri.stopContainer(id, 60);
      await underTest.elapse(100);
      await underTest.within(cri.stopContainer(id, 1));
      await underTest.within(first);
      expect(await cri.containerStatus(id)).toMatchObject({ state: "CONTAINER_EXITED", exitCode: 137 });
      expect(underTest.nowMs() - before).toBeLessThan(30_000);
    });

    it("CR7 stopping a sandbox kills its containers and keeps them for inspection; removing deletes all", async () => {
      const { id, sandbox } = await started(underTest.programs.stubborn);
      await underTest.within(cri.stopPodSandbox(sandbox));
      expect((await cri.podSandboxStatus(sandbox)).state).toBe("SANDBOX_NOTREADY");
      expect((await cri.podSandboxStatus(sandbox)).network?.ip ?? "").toBe("");
      expect(await cri.containerStatus(id)).toMatchObject({ state: "CONTAINER_EXITED", exitCode: 137 });
      await cri.stopPodSandbox(sandbox);
      await cri.removePodSandbox(sandbox);
      await cri.removePodSandbox(sandbox);
      expect([await cri.listPodSandbox(), await cri.listContainers()]).toEqual([[], []]);
    });

    it("CR7 removes a running container and frees its name", async () => {
      const { id, sandbox, config } = await started(underTest.programs.serve);
      await cri.removeContainer(id);
      expect(await states()).toEqual([]);
      await cri.createContainer(sandbox, containerConfig(underTest.programs.serve), config);
      expect(await states()).toEqual(["CONTAINER_CREATED"]);
    });

    it("CR8 applies every field of a filter", async () => {
      const [web, db] = [sandboxConfig({ app: "web" }), sandboxConfig({ app: "db" })];
      const [webId, dbId] = [await cri.runPodSandbox(web), await cri.runPodSandbox(db)];
      const a = await cri.createContainer(webId, containerConfig(underTest.programs.serve, { labels: { c: "a" } }), web);
      const b = await cri.createContainer(dbId, containerConfig(underTest.programs.serve, { labels: { c: "b" } }), db);
      await cri.startContainer(b);
      await cri.stopPodSandbox(webId);
      const found = async (filter: Parameters<Cri["listPodSandbox"]>[0]) =>
        (await cri.listPodSandbox(filter)).map(({ id }) => id).toSorted();
      expect(await found({})).toEqual([webId, dbId].toSorted());
      expect(await found({ state: "SANDBOX_READY" })).toEqual([dbId]);
      expect(await found({ state: "SANDBOX_NOTREADY" })).toEqual([webId]);
      expect(await found({ labelSelector: { app: "web" } })).toEqual([webId]);
      expect(await found({ labelSelector: { app: "web" }, state: "SANDBOX_READY" })).toEqual([]);
      expect(await found({ id: dbId })).toEqual([dbId]);
      const has = async (filter: Parameters<Cri["listContainers"]>[0]) => (await cri.listContainers(filter)).map(({ id }) => id);
      expect(await has({ state: "CONTAINER_RUNNING" })).toEqual([b]);
      expect(await has({ podSandboxId: webId })).toEqual([a]);
      expect(await has({ labelSelector: { c: "b" } })).toEqual([b]);
      expect(await has({ labelSelector: { c: "b" }, podSandboxId: webId })).toEqual([]);
      expect((await cri.listContainerStats({ podSandboxId: dbId })).map(({ id, metadata }) => [id, metadata.name])).toEqual([[b, "main"]]);
    });

    it("CR10 runs a command in a running container, and ends it at its timeout", async () => {
      const { id } = await started(underTest.programs.serve);
      expect(await cri.execSync(id, underTest.failingCommand, 10)).toMatchObject({ exitCode: 3, stdout: "ending with 3\n" });
      const late = underTest.within(cri.execSync(id, underTest.longCommand, 1));
      expect(await late.catch(isDeadlineExceeded)).toBe(true);
      const abort = new AbortController();
      const endless = cri.execSync(id, underTest.longCommand, 2_147_483_647, { signal: abort.signal });
      setImmediate(() => abort.abort());
      await expect(endless).rejects.toMatchObject({ code: "Canceled" });
      const address = await cri.exec({ containerId: id, cmd: ["true"], tty: false, stdin: false, stdout: true, stderr: true });
      expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/exec\/./);
      await underTest.within(cri.stopContainer(id, 10));
      await expect(cri.execSync(id, underTest.failingCommand, 10)).rejects.toThrow("CONTAINER_EXITED");
    });

    it("the runtime finds its images by name and id, and reports why a pull failed", async () => {
      const { image } = underTest.programs.serve;
      const status = await cri.imageStatus(image);
      expect(status).toMatchObject({ id: expect.stringMatching(/^sha256:/), sizeBytes: expect.any(Number) });
      expect((await cri.imageStatus({ image: status?.id ?? "" }))?.id).toBe(status?.id);
      expect((await cri.listImages()).map(({ id }) => id)).toContain(status?.id);
      await expect(underTest.within(cri.pullImage({ image: underTest.absentImage }))).rejects.toThrow(`"${underTest.absentImage}"`);
      expect(await cri.imageStatus({ image: underTest.absentImage })).toBeUndefined();
      const [filesystem] = await cri.imageFsInfo();
      expect(filesystem?.mountpoint).toMatch(/^\//);
    });

    it("CR12 survives a restart of the runtime", async () => {
      const running = await started(underTest.programs.serve);
      const dead = await started(underTest.programs.exit);
      const { finishedAtMs } = await exited(dead.id);
      const { network } = await cri.podSandboxStatus(running.sandbox);
      await underTest.restart();
      expect(await cri.containerStatus(running.id)).toMatchObject({ state: "CONTAINER_RUNNING" });
      expect(await cri.containerStatus(dead.id)).toMatchObject({ state: "CONTAINER_EXITED", exitCode: 3, finishedAtMs });
      expect(await cri.podSandboxStatus(running.sandbox)).toMatchObject({ state: "SANDBOX_READY", network });
      await expect(cri.runPodSandbox(running.config)).rejects.toThrow("reserved");
      await underTest.within(cri.stopContainer(running.id, 10));
      expect(await cri.containerStatus(running.id)).toMatchObject({ state: "CONTAINER_EXITED", exitCode: 0 });
    });
  });
}

/** Returns `stdout F text` for a line in CRI's format or in that of Docker's json-file driver (CR9). */
function withoutTime(line: string): string {
  if (!line.startsWith("{")) return line.replace(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|[+-]\d\d:\d\d) /, "");
  const { log, stream } = JSON.parse(line) as { readonly log: string; readonly stream: string }; // an unexpected shape fails the comparison
  return `${stream} ${log.endsWith("\n") ? "F" : "P"} ${log.trimEnd()}`;
}
