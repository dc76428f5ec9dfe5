// Would catch: a log that grows without limit, a log path that is requested each time, and an unreadable log that blocks the others.
import { expect, test } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { KnownStatuses } from "../../../../shared/node-agent/kubelet/node-ports/known-statuses.ts";
import { LogRotation } from "../../../../shared/node-agent/kubelet/kuberuntime/collect-garbage.ts";
import { recordingLog } from "../../recording-log.ts";

/** Containers by id, each with a log; that of `broken` is unreadable. */
function rotating() {
  const running = new Map<string, string>();
  const asked: string[] = [];
  const rotated: string[] = [];
  const log = recordingLog();
  const state = "CONTAINER_RUNNING";
  const cri = {
    listContainers: async () => [...running.keys()].map((id) => ({ id, state })),
    containerStatus: async (id: string) => {
      asked.push(id);
      if (id === "broken") throw new Error("no status");
      return { state, logPath: running.get(id) };
    },
  };
  const ports = {
    cri,
    known: new KnownStatuses(cri as unknown as ConstructorParameters<typeof KnownStatuses>[0]),
    files: { rotateLog: async (path: string) => void rotated.push(path) },
    clock: createVirtualClock(0),
    log,
  };
  // the rotation calls only these verbs
  return { running, asked, rotated, log, rotation: new LogRotation(ports as unknown as ConstructorParameters<typeof LogRotation>[0]) };
}

test("checks the log of every running container in each round, and queries the runtime for the path only in the first round", async () => {
  const { running, asked, rotated, rotation } = rotating();
  running.set("a", "/a.log").set("b", "/b.log");
  await rotation.rotate();
  await rotation.rotate();
  expect(asked).toEqual(["a", "b"]);
  expect(rotated).toEqual(["/a.log", "/b.log", "/a.log", "/b.log"]);
});

test("requests a path again after a failure, without affecting other containers", async () => {
  const { running, asked, rotated, rotation } = rotating();
  running.set("a", "/a.log").set("broken", "").set("b", "/b.log");
  await rotation.rotate();
  running.delete("a");
  await rotation.rotate();
  expect(asked).toEqual(["a", "broken", "b", "broken"]);
  expect(rotated).toEqual(["/a.log", "/b.log", "/b.log"]);
});
