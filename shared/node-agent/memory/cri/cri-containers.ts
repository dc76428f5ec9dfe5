/** Containers of the memory runtime. Their scripts and the clock determine the changes from CREATED to RUNNING to EXITED. */
import type { Clock } from "@deltaloop/base";
import { CriError } from "../../ports/cri-error.ts";
import type {
  Container,
  ContainerConfig,
  ContainerState,
  ContainerStatus,
  LinuxContainerResources,
  PodSandboxConfig,
} from "../../ports/cri-types.ts";
import { writeLines } from "./cri-log.ts";
import type { WriteLog } from "./cri-log.ts";
import type { ContainerScript } from "./cri-script.ts";

/** 128 plus the number of SIGKILL. */
const KILLED = 137;

export interface MemoryContainer {
  readonly id: string;
  readonly podSandboxId: string;
  readonly config: ContainerConfig;
  readonly imageRef: string;
  readonly script: ContainerScript;
  readonly logPath: string;
  readonly createdAtMs: number;
  readonly startedAtMs: number | undefined;
  state(): ContainerState;
  status(): ContainerStatus;
  summary(): Container;
  /** @throws {CriError} if the container was started before, or if its script has a `startError` */
  start(): void;
  update(resources: LinuxContainerResources): void;
  stop(timeoutSeconds: number): Promise<void>;
  kill(): void;
}

export interface ContainerOptions {
  readonly id: string;
  readonly podSandboxId: string;
  readonly config: ContainerConfig;
  readonly sandboxConfig: PodSandboxConfig;
  readonly imageRef: string;
  readonly script: ContainerScript;
  readonly clock: Clock;
  readonly writeLog: WriteLog;
}

export function createMemoryContainer(options: ContainerOptions): MemoryContainer {
  const { id, podSandboxId, config, sandboxConfig, imageRef, script, clock, writeLog } = options;
  const createdAtMs = clock.now();
  const logPath = sandboxConfig.logDirectory && config.logPath ? `${sandboxConfig.logDirectory}/${config.logPath}` : "";
  const ended = new AbortController();
  let startedAtMs: number | undefined;
  let resources: LinuxContainerResources = config.linux?.resources ?? {};
  let exit: { readonly atMs: number; readonly code: number; readonly reason: string; readonly message: string } | undefined;

  const state = (): ContainerState => (exit ? "CONTAINER_EXITED" : startedAtMs === undefined ? "CONTAINER_CREATED" : "CONTAINER_RUNNING");
  const end = (code: number, reason = code === 0 ? "Completed" : "Error", message = ""): void => {
    if (exit) return;
    exit = { atMs: clock.now(), code, reason, message };
    ended.abort("ended");
  };
  /** Waits for `ms`, or until the container ends. @returns whether the container is still running */
  const lasts = async (ms: number): Promise<boolean> => {
    await clock.after(ms, ended.signal).catch(() => undefined); // the signal means that the container has ended
    return exit === undefined;
  };
  const after = (ms: number, code: number): void => {
    void lasts(ms).then((still) => still && end(code));
  };
  const common = {
    id,
    metadata: config.metadata,
    image: config.image.image,
    imageRef,
    createdAtMs,
    labels: config.labels ?? {},
    annotations: config.annotations ?? {},
  };

  return {
    ...{ id, podSandboxId, config, imageRef, script, logPath, createdAtMs },
    get startedAtMs() {
      return startedAtMs;
    },
    state,
    summary: () => ({ ...common, podSandboxId, state: state() }),
    status: () => ({
      ...common,
      state: state(),
      ...(startedAtMs !== undefined && { startedAtMs }),
      ...(exit && { finishedAtMs: exit.atMs }),
      exitCode: exit?.code ?? 0,
      reason: exit?.reason ?? "",
      message: exit?.message ?? "",
      mounts: config.mounts ?? [],
      logPath,
      resources,
    }),
    update(changed) {
      resources = { ...resources, ...Object.fromEntries(Object.entries(changed).filter(([, value]) => value !== 0)) };
    },
    start() {
      if (state() !== "CONTAINER_CREATED") throw new CriError("Unknown", `container is in ${state()} state`);
      if (script.startError !== undefined) {
        end(128, "StartError", script.startError);
        throw new CriError("Unknown", script.startError);
      }
      startedAtMs = clock.now();
      writeLines({ path: logPath, clock, write: writeLog }, script.output ?? []);
      if (script.exitAfterMs !== undefined) after(script.exitAfterMs, script.exitCode ?? 0);
    },
    async stop(timeoutSeconds) {
      if (state() !== "CONTAINER_RUNNING") return;
      const { stopAfterMs = 0, stopExitCode = 0 } = script;
      if (timeoutSeconds > 0) {
        if (stopAfterMs === 0) end(stopExitCode);
        else if (stopAfterMs !== "never") after(stopAfterMs, stopExitCode);
        await lasts(timeoutSeconds * 1_000);
      }
      end(KILLED);
    },
    kill() {
      if (state() === "CONTAINER_RUNNING") end(KILLED);
    },
  };
}
