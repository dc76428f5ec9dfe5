/** Injects faults between a caller and a runtime: unavailable runtime, unimplemented method, slow call, lost response. */
import type { Clock, Random } from "@deltaloop/base";
import { CriError } from "../../ports/cri-error.ts";
import type { Cri } from "../../ports/cri.ts";

/** Probabilities from 0 to 1; the default of each is 0. */
export interface CriFaults {
  /** Fails the call with Unavailable before any effect. */
  readonly unavailable?: number;
  /** Executes the call and then fails it with Unavailable, as if the response was lost. */
  readonly lostAnswer?: number;
  /** Delays the start of the call by up to `slowMsMax`. */
  readonly slow?: number;
  /** Default: 10 s. */
  readonly slowMsMax?: number;
}

export interface CriGateOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly isRunning: () => boolean;
  readonly unimplemented: ReadonlySet<keyof Cri>;
  readonly faults: () => CriFaults;
}

const SLOW_MS_MAX = 10_000;

/** Wraps every method of `cri` with fault injection. */
export function gated(cri: Cri, options: CriGateOptions): Cri {
  const gate =
    <Arguments extends readonly unknown[], Answer>(verb: keyof Cri, run: (...args: Arguments) => Promise<Answer>) =>
    (...args: Arguments): Promise<Answer> =>
      pass(verb, () => run(...args), options);
  return {
    version: gate("version", cri.version),
    status: gate("status", cri.status),
    statusInfo: gate("statusInfo", cri.statusInfo),
    runtimeConfig: gate("runtimeConfig", cri.runtimeConfig),
    runPodSandbox: gate("runPodSandbox", cri.runPodSandbox),
    stopPodSandbox: gate("stopPodSandbox", cri.stopPodSandbox),
    removePodSandbox: gate("removePodSandbox", cri.removePodSandbox),
    podSandboxStatus: gate("podSandboxStatus", cri.podSandboxStatus),
    listPodSandbox: gate("listPodSandbox", cri.listPodSandbox),
    createContainer: gate("createContainer", cri.createContainer),
    startContainer: gate("startContainer", cri.startContainer),
    stopContainer: gate("stopContainer", cri.stopContainer),
    removeContainer: gate("removeContainer", cri.removeContainer),
    containerStatus: gate("containerStatus", cri.containerStatus),
    listContainers: gate("listContainers", cri.listContainers),
    reopenContainerLog: gate("reopenContainerLog", cri.reopenContainerLog),
    updateContainerResources: gate("updateContainerResources", cri.updateContainerResources),
    execSync: gate("execSync", cri.execSync),
    exec: gate("exec", cri.exec),
    attach: gate("attach", cri.attach),
    portForward: gate("portForward", cri.portForward),
    containerStats: gate("containerStats", cri.containerStats),
    listContainerStats: gate("listContainerStats", cri.listContainerStats),
    imageStatus: gate("imageStatus", cri.imageStatus),
    pullImage: gate("pullImage", cri.pullImage),
    removeImage: gate("removeImage", cri.removeImage),
    listImages: gate("listImages", cri.listImages),
    imageFsInfo: gate("imageFsInfo", cri.imageFsInfo),
  };
}

async function pass<Answer>(verb: keyof Cri, run: () => Promise<Answer>, options: CriGateOptions): Promise<Answer> {
  const { clock, random, isRunning } = options;
  const { unavailable = 0, lostAnswer = 0, slow = 0, slowMsMax = SLOW_MS_MAX } = options.faults();
  const chance = (probability: number): boolean => probability > 0 && random.next() < probability;
  if (!isRunning() || chance(unavailable)) throw new CriError("Unavailable", "connection refused");
  if (options.unimplemented.has(verb)) throw new CriError("Unimplemented", `unknown method ${verb}`);
  if (chance(slow)) await clock.after(random.next() * slowMsMax);
  const isLost = chance(lostAnswer);
  const answer = await run();
  // The runtime was killed during the call. The call may have taken effect, but there is no response.
  if (isLost || !isRunning()) throw new CriError("Unavailable", "the connection broke before the response");
  return answer;
}
