// The reflector: transitions between list, watch and back-off.
import { describe, expect, test } from "vitest";
import { stepBackoff, FRESH_BACKOFF } from "../../../shared/kube/list-watch/reflector-backoff.ts";
import { startReflector, stepReflector } from "../../../shared/kube/list-watch/reflector.ts";
import type { ReflectorInput, ReflectorState, ReflectorStep } from "../../../shared/kube/list-watch/reflector.ts";
import { KubeApiError, UnansweredError } from "../../../shared/kube/client/errors.ts";

const NO_JITTER = 0;
const expired = new KubeApiError({ code: 410, reason: "Expired" });
const tooMany = (retryAfterSeconds?: number): KubeApiError => new KubeApiError({ code: 429, reason: "TooManyRequests", retryAfterSeconds });
const internal = new KubeApiError({ code: 500, reason: "InternalError" });
const refused = new UnansweredError("connect ECONNREFUSED");
const closed = (events: number, openMs: number): ReflectorInput => ({ kind: "closed", clean: true, events, openMs });

/** Runs inputs at one-second steps, or at the given times. */
function run(
  resumeFrom: string | undefined,
  ...inputs: readonly (ReflectorInput | { readonly at: number; readonly input: ReflectorInput })[]
): readonly ReflectorStep[] {
  let [state, step] = startReflector(resumeFrom);
  const steps = [step];
  inputs.forEach((each, index) => {
    const { at, input } = "at" in each ? each : { at: index * 1000, input: each };
    [state, step] = stepReflector(state, input, at, NO_JITTER);
    steps.push(step);
  });
  return steps;
}

const brief = (steps: readonly ReflectorStep[]): readonly string[] =>
  steps.map((step) => (step.do === "continue" ? "-" : `${step.do} ${step.rv ?? "latest"} after ${step.afterMs}`));

describe("reflector", () => {
  test("[informer T01] requests the most recent state in the first list of an epoch, then watches from the list's version", () => {
    expect(brief(run(undefined, { kind: "listed", rv: "10" }))).toEqual(["list latest after 0", "watch 10 after 0"]);
  });

  test("[informer T02] requests the latest state immediately when a relist expired", () => {
    const steps = run(
      undefined,
      { kind: "listed", rv: "10" },
      { kind: "refused", error: expired, inStream: true },
      { kind: "listFailed", error: expired },
      { kind: "listed", rv: "30" },
    );
    expect(brief(steps)).toEqual(["list latest after 0", "watch 10 after 0", "list 10 after 0", "list latest after 0", "watch 30 after 0"]);
  });

  test.each([
    { name: "the cause's reason", error: new KubeApiError({ code: 504, causes: [{ reason: "ResourceVersionTooLarge" }] }) },
    { name: "the cause's message", error: new KubeApiError({ code: 504, causes: [{ message: "Too large resource version" }] }) },
    {
      name: "the error message alone",
      error: new KubeApiError({ code: 504, message: "Timeout: Too large resource version: 9, current: 7" }),
    },
  ])("[informer T03] lists the latest state after a version too large, reported by $name", ({ error }) => {
    expect(brief(run("9", { kind: "refused", error, inStream: false }))[1]).toBe("list latest after 0");
    expect(
      brief(
        run(undefined, { kind: "listed", rv: "9" }, { kind: "refused", error: expired, inStream: true }, { kind: "listFailed", error }),
      )[3],
    ).toBe("list latest after 0");
  });

  test.each([
    { name: "is rejected too", error: expired },
    { name: "fails for another reason", error: internal },
  ])("[informer T02] waits after a list of the latest state that $name, and requests the latest state again", ({ error }) => {
    const steps = run("9", { kind: "listFailed", error: expired }, { kind: "listFailed", error });
    expect(brief(steps).slice(1)).toEqual(["list latest after 0", "list latest after 800"]);
  });

  test.each([
    { name: "[informer T07] in the stream", inStream: true },
    { name: "[informer T08] as HTTP status", inStream: false },
  ])("$name: lists from the last version after a 410", ({ inStream }) => {
    expect(brief(run("12", { kind: "refused", error: expired, inStream }))[1]).toBe("list 12 after 0");
  });

  test("[informer T09] watches again at the same version without a list after refused connections and 429, with the server's delay", () => {
    const steps = run(
      "12",
      { kind: "refused", error: refused, inStream: false },
      { kind: "refused", error: refused, inStream: false },
      { kind: "refused", error: tooMany(7), inStream: false },
    );
    expect(brief(steps).slice(1)).toEqual(["watch 12 after 800", "watch 12 after 1600", "watch 12 after 7000"]);
  });

  test("[informer T10] backs off and watches again after a 429 in the stream", () => {
    expect(brief(run("12", { kind: "refused", error: tooMany(), inStream: true }))[1]).toBe("watch 12 after 800");
  });

  test("[informer T11] watches again for 30 s after internal errors, then lists", () => {
    const at = (seconds: number): { at: number; input: ReflectorInput } => ({
      at: seconds * 1000,
      input: { kind: "refused", error: internal, inStream: true },
    });
    const steps = run("12", at(0), at(10), at(29), at(30), at(31));
    expect(steps.slice(1).map((step) => step.do)).toEqual(["watch", "watch", "watch", "list", "watch"]);
  });

  test("[informer T12] backs off further after each very short watch", () => {
    const steps = run("12", ...Array.from({ length: 5 }, () => closed(0, 200)));
    expect(brief(steps).slice(1)).toEqual([800, 1600, 3200, 6400, 12_800].map((ms) => `watch 12 after ${ms}`));
    expect(stepReflector(startReflector("12")[0], closed(0, 200), 0, 0.5)[1]).toMatchObject({ do: "watch", afterMs: 1200 });
  });

  test("restarts a watch immediately that ended with events or after a second", () => {
    expect(brief(run("12", closed(1, 10), closed(0, 1000))).slice(1)).toEqual(["watch 12 after 0", "watch 12 after 0"]);
  });

  test("[informer T13] resets the back-off after a watch was healthy for two minutes", () => {
    const [used] = stepBackoff(FRESH_BACKOFF, 0, 0.99);
    expect(stepBackoff(used, 119_000, 0)[1]).toBe(1600);
    expect(stepBackoff(used, 121_000, 0)[1]).toBe(800);
    expect(stepBackoff(used, 121_000, 0.999)[1]).toBeLessThan(1600);
    expect(stepBackoff({ nextMs: 30_000, usedAtMs: 0 }, 1, 0.5)[1]).toBe(45_000);
  });

  test("[informer T14] a bookmark moves the version from which a lost connection resumes", () => {
    const steps = run("12", { kind: "accepted", rv: "50" }, { kind: "closed", clean: false, events: 1, openMs: 5000 });
    expect(brief(steps).slice(1)).toEqual(["-", "watch 50 after 800"]);
  });

  test("[informer T22] resumes before an undecodable line, and lists if the line after the same version fails again", () => {
    const steps = run("12", { kind: "accepted", rv: "13" }, { kind: "undecodable" }, { kind: "undecodable" }, { kind: "listed", rv: "20" });
    expect(brief(steps).slice(1)).toEqual(["-", "watch 13 after 800", "list 13 after 0", "watch 20 after 0"]);
  });

  test("resumes again when the next undecodable line follows another version", () => {
    const steps = run("12", { kind: "undecodable" }, { kind: "accepted", rv: "13" }, { kind: "undecodable" });
    expect(steps.map((step) => step.do)).toEqual(["watch", "watch", "continue", "watch"]);
  });

  test("watches again once after an unknown in-stream error, then lists", () => {
    const odd = new KubeApiError({ code: 418 });
    const steps = run("12", { kind: "refused", error: odd, inStream: true }, { kind: "refused", error: odd, inStream: true });
    expect(steps.slice(1).map((step) => step.do)).toEqual(["watch", "list"]);
  });

  const watchListFailed = (error?: unknown, begun = false): ReflectorInput => ({ kind: "watchListFailed", error, begun });
  const how = (steps: readonly ReflectorStep[]): readonly string[] =>
    steps.map((step) => (step.do === "list" ? `${step.by} ${step.rv ?? "latest"} after ${step.afterMs}` : step.do));

  test.each([
    {
      name: "[informer T19] an unknown verb makes this list and all later ones paged",
      inputs: [
        watchListFailed(new KubeApiError({ code: 422 })),
        { kind: "listed", rv: "20" },
        { kind: "refused", error: expired, inStream: true },
      ],
      want: ["watchList latest after 0", "pages latest after 0", "watch", "pages 20 after 0"],
    },
    {
      name: "[informer T19] any other rejection makes only this list paged",
      inputs: [watchListFailed(internal), { kind: "listed", rv: "20" }, { kind: "refused", error: expired, inStream: true }],
      want: ["watchList latest after 0", "pages latest after 0", "watch", "watchList 20 after 0"],
    },
    {
      name: "[informer T18] an interrupted stream is restarted, and paged after two interruptions in a row",
      inputs: [watchListFailed(undefined, true), watchListFailed(refused, true)],
      want: ["watchList latest after 0", "watchList latest after 800", "pages latest after 1600"],
    },
    {
      name: "a stream that never started is retried, and does not count as an interruption",
      inputs: [watchListFailed(refused), watchListFailed(refused), watchListFailed(refused)],
      want: ["watchList latest after 0", "watchList latest after 800", "watchList latest after 1600", "watchList latest after 3200"],
    },
    {
      name: "a stream rejected with a delay is retried after it",
      inputs: [watchListFailed(tooMany(7))],
      want: ["watchList latest after 0", "watchList latest after 7000"],
    },
  ] satisfies readonly { readonly name: string; readonly inputs: readonly ReflectorInput[]; readonly want: readonly string[] }[])(
    "WatchList: $name",
    ({ inputs, want }) => {
      expect(how(run(undefined, ...inputs))).toEqual(want);
    },
  );

  test.each([
    { name: "after a lost connection", inputs: [{ kind: "closed", clean: false, events: 1, openMs: 5_000 }], probe: true },
    { name: "after a clean end", inputs: [closed(1, 5_000)], probe: true },
    { name: "after a refusal", inputs: [{ kind: "refused", error: refused, inStream: false }], probe: true },
    {
      name: "after a list",
      inputs: [
        { kind: "relist", why: "a test" },
        { kind: "listed", rv: "20" },
      ],
      probe: false,
    },
    { name: "at the start", inputs: [], probe: true },
  ] satisfies readonly { readonly name: string; readonly inputs: readonly ReflectorInput[]; readonly probe: boolean }[])(
    "[informer T52] requests the server's newest version before a watch that is opened $name: $probe",
    ({ inputs, probe }) => {
      expect(run("12", ...inputs).at(-1)).toMatchObject({ do: "watch", probe });
    },
  );

  test("[informer T52] lists the latest state when the newest version is below the last accepted one, and continues otherwise", () => {
    const probed = (rv: string): ReflectorInput => ({ kind: "probed", rv });
    expect(brief(run("12", { kind: "accepted", rv: "1000" }, probed("999")))).toEqual(["watch 12 after 0", "-", "list latest after 0"]);
    expect(brief(run("12", { kind: "accepted", rv: "1000" }, probed("1000"), probed("1001"))).slice(2)).toEqual(["-", "-"]);
    expect(brief(run("12", probed("11"), { kind: "listed", rv: "11" }, closed(1, 9), probed("11"))).slice(1)).toEqual([
      "list latest after 0",
      "watch 11 after 0",
      "watch 11 after 0",
      "-",
    ]);
  });

  test("keeps its state as plain data, so that another process can continue from it", () => {
    const [state] = startReflector("12");
    const copy = JSON.parse(JSON.stringify(state)) as ReflectorState;
    expect(stepReflector(copy, { kind: "undecodable" }, 0, 0)).toEqual(stepReflector(state, { kind: "undecodable" }, 0, 0));
  });
});
