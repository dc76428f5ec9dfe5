/** Entries of a pod's status lists, one for each state in upstream's own tables. */
import { deepFreeze } from "../../../shared/base/freeze.ts";
import type { ContainerStatusEntry } from "../../../shared/node-agent/kubelet/types/pod.ts";
import { IMAGE, ago } from "./fixtures.ts";

type State = NonNullable<ContainerStatusEntry["state"]>;

export function entry(name: string, fields: Partial<ContainerStatusEntry> = {}): ContainerStatusEntry {
  return deepFreeze({ name, image: IMAGE, imageID: "", ready: false, restartCount: 0, state: {}, lastState: {}, ...fields });
}

/** Running but not started, as before a startup probe has succeeded. */
export const running = (name: string, fields: Partial<ContainerStatusEntry> = {}): ContainerStatusEntry =>
  entry(name, { state: { running: { startedAt: ago(40) } }, containerID: `containerd://${name}-0`, ...fields });
export const started = (name: string): ContainerStatusEntry => running(name, { started: true, ready: true });
export const ended = (name: string, exitCode: number, fields: Partial<ContainerStatusEntry> = {}): ContainerStatusEntry =>
  entry(name, { state: terminated(exitCode), containerID: `containerd://${name}-0`, ...fields });
export const succeeded = (name: string): ContainerStatusEntry => ended(name, 0);
export const failed = (name: string): ContainerStatusEntry => ended(name, 1);
/** A container that has never run. */
export const waiting = (name: string, reason = "ContainerCreating"): ContainerStatusEntry =>
  entry(name, { state: { waiting: { reason } } });
/** A container that exited with that code and waits for its restart. */
export const backOff = (name: string, exitCode: number): ContainerStatusEntry =>
  entry(name, { state: { waiting: { reason: "CrashLoopBackOff" } }, lastState: terminated(exitCode), restartCount: 1 });

function terminated(exitCode: number): State {
  return { terminated: { exitCode, reason: exitCode === 0 ? "Completed" : "Error", finishedAt: ago(10) } };
}
