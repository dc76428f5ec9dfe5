/** Docker's container states as the runtime port reports them. */
import { Readable } from "node:stream";

import { describe, expect, it } from "vitest";

import { containerStats, containerStatus, image, inspectedState, listedState } from "../../../../shared/docker/container-status.ts";
import { demux } from "../../../../shared/docker/demux.ts";
import type { ContainerRecord } from "../../../../shared/docker/records.ts";

type Inspected = Parameters<typeof containerStatus>[0];
type State = Inspected["State"];

const KEPT: ContainerRecord = {
  metadata: { name: "main", attempt: 0 },
  podSandboxId: "5a",
  labels: {},
  annotations: {},
  createdAtMs: 5,
  image: "web:1",
  logPath: "/l",
};
const NEVER = "0001-01-01T00:00:00Z";
const [START, END] = ["2026-03-01T10:00:00.123456789Z", "2026-03-01T12:00:01+02:00"];

function inspected(state: Partial<State>): Inspected {
  const at = { Running: false, ExitCode: 0, Error: "", OOMKilled: false, StartedAt: NEVER, FinishedAt: NEVER, ...state };
  // the fields that are decoded
  return { Id: "1f", Image: "sha256:2e", State: at, HostConfig: { Memory: 9 }, Mounts: [] } as unknown as Inspected;
}

describe("the status of a Docker container [node-agent 410]", () => {
  const cases: readonly { readonly name: string; readonly state: Partial<State>; readonly want: object }[] = [
    { name: "was created", state: {}, want: { state: "CONTAINER_CREATED", exitCode: 0, reason: "" } },
    {
      name: "runs",
      state: { Running: true, StartedAt: START },
      want: { state: "CONTAINER_RUNNING", startedAtMs: Date.parse("2026-03-01T10:00:00Z") + 123.456789, reason: "" },
    },
    {
      name: "exited with code 0",
      state: { StartedAt: START, FinishedAt: END },
      want: { state: "CONTAINER_EXITED", exitCode: 0, reason: "Completed", finishedAtMs: Date.parse("2026-03-01T10:00:01Z") },
    },
    { name: "has failed", state: { StartedAt: START, FinishedAt: END, ExitCode: 3 }, want: { exitCode: 3, reason: "Error" } },
    {
      name: "was OOM-killed",
      state: { StartedAt: START, FinishedAt: END, ExitCode: 137, OOMKilled: true },
      want: { reason: "OOMKilled" },
    },
    {
      name: "failed to start",
      state: { ExitCode: 127, Error: "no such file" },
      want: {
        state: "CONTAINER_EXITED",
        exitCode: 127,
        reason: "ContainerCannotRun",
        message: "no such file",
        startedAtMs: 5,
        finishedAtMs: 5,
      },
    },
  ];
  it.each(cases)("reports a container that $name", ({ state, want }) => {
    const status = containerStatus(inspected(state), KEPT, undefined);
    expect(status).toMatchObject({ ...want, image: "web:1", imageRef: "sha256:2e", resources: { memoryLimitInBytes: 9 } });
    expect(inspectedState(inspected(state))).toBe(status.state);
  });

  it("a container's status is complete in a list, except that created containers must be inspected", () => {
    const words = ["running", "paused", "exited", "dead", "created", "newer"];
    expect(words.map(listedState)).toEqual([
      ...["CONTAINER_RUNNING", "CONTAINER_RUNNING", "CONTAINER_EXITED", "CONTAINER_EXITED"],
      undefined,
      "CONTAINER_UNKNOWN",
    ]);
  });

  it("reads memory usage less reclaimable pages in both cgroup versions, or reports nothing", () => {
    const stats = (memory: object) =>
      // the fields that are decoded
      ({ read: START, cpu_stats: { cpu_usage: { total_usage: 8 } }, memory_stats: { usage: 100, stats: memory } }) as never;
    expect(containerStats("1f", KEPT, stats({ total_inactive_file: 30, inactive_file: 1 }), 7)).toMatchObject({
      cpu: { usageCoreNanoSeconds: 8 },
      memory: { usageBytes: 100, workingSetBytes: 70 },
      writableLayer: { usedBytes: 7 },
    });
    expect(containerStats("1f", KEPT, stats({ inactive_file: 200 }), undefined).memory?.workingSetBytes).toBe(0);
    expect(containerStats("1f", KEPT, undefined, undefined)).toEqual({ id: "1f", metadata: KEPT.metadata, labels: {} });
  });
});

it("reads an image's user as a number or a name, and omits the user of an untagged image [node-agent 410]", () => {
  const found = { Id: "sha256:2e", RepoTags: ["<none>:<none>"], RepoDigests: null, Size: 4 };
  expect(image(found, "12:34")).toEqual({
    id: "sha256:2e",
    repoTags: [],
    repoDigests: [],
    sizeBytes: 4,
    uid: 12,
    username: "",
    pinned: false,
  });
  expect(image(found, "nobody")).toMatchObject({ username: "nobody" });
  expect(image(found)).toMatchObject({ username: "" });
});

describe("output in chunks [node-agent 402]", () => {
  const piece = (stream: number, text: string): Buffer => {
    const header = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0]);
    header.writeUInt32BE(text.length, 4);
    return Buffer.concat([header, Buffer.from(text)]);
  };
  const all = async (chunks: readonly Buffer[], tty = false): Promise<readonly string[]> => {
    const said = new Map<string, string>();
    for await (const { stream, data } of demux(Readable.from(chunks), tty)) said.set(stream, `${said.get(stream) ?? ""}${data.toString()}`);
    return [...said].map(([stream, text]) => `${stream} ${text}`);
  };
  const bytes = Buffer.concat([piece(1, "one "), piece(2, "err"), piece(1, ""), piece(1, "two")]);

  it("the output does not depend on the chunks in which it arrives", async () => {
    for (const size of [1, 3, 8, 11, bytes.length]) {
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => bytes.subarray(index * size, (index + 1) * size));
      expect(await all(chunks)).toEqual(["stdout one two", "stderr err"]);
    }
  });

  it("a container with a terminal has one raw output stream", async () => expect(await all([bytes], true)).toHaveLength(1));
});
