/** Entries of a pod's status lists, one per state that upstream's own tables know. */
import { deepFreeze } from "../../../shared/base/freeze.ts";
import type { ContainerStatusEntry } from "../../../shared/node-agent/kubelet/types/pod.ts";
import { IMAGE, ago } from "./fixtures.ts";

type State = NonNullable<ContainerStatusEntry["state"]>;

export function entry(name: string, fields: Partial<ContainerStatusEntry> = {}): ContainerStatusEntry {
  return deepFreeze({ name, image: IMAGE, imageID: "", ready: false, restartCount: 0, state: {}, lastState: {}, ...fields });
}

/** Not started: a startup probe may have to succeed first. */
export const running = (name: string, fields: Partial<ContainerStatusEntry> = {}): ContainerStatusEntry =>
  entry(name, { state: { running: { startedAt: ago(40) } }, containerID: `containerd://${name}-0`, ...fields });
export const started = (name: string): ContainerStatusEntry => running(name, { started: true, ready: true });
export const ended = (name: string, exitCode: number, fields: Partial<ContainerStatusEntry> = {}): ContainerStatusEntry =>
  entry(name, { state: terminated(exitCode), containerID: `containerd://${name}-0`, ...fields });
export const succeeded = (name: string): ContainerStatusEntry => ended(name, 0);
export const failed = (name: string): ContainerStatusEntry => ended(name, 1);
/** Never ran. */
export const waiting = (name: string, reason = "ContainerCreating"): ContainerStatusEntry =>
  entry(name, { state: { waiting: { reason } } });
/** Ended with that code, and waits to be started again. */
export const backOff = (name: string, exitCode: number): ContainerStatusEntry =>
  entry(name, { state: { waiting: { reason: "CrashLoopBackOff" } }, lastState: terminated(exitCode), restartCount: 1 });

function terminated(exitCode: number): State {
  return { terminated: { exitCode, reason: exitCode === 0 ? "Completed" : "Error", finishedAt: ago(10) } };
}
