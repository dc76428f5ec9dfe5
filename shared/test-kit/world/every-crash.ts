/** Runs one scenario with a crash before and after each of its calls. */
import type { EveryCrashOptions, OpenWorld, Scenario } from "./types.ts";
import { createCallFaults } from "../crashes/call-faults.ts";
import type { Call, CallFaults } from "../crashes/call-faults.ts";
import { differenceBetween } from "./end-state.ts";
import type { EndState } from "./end-state.ts";

interface Ended {
  readonly state: EndState;
  readonly created: ReadonlyMap<string, number>;
  readonly calls: readonly Call[];
}

/** @param open a new world whose calls have these faults. @throws {Error} for the first run that ends differently */
export async function everyCrash(
  open: (faults: CallFaults) => Promise<OpenWorld>,
  scenario: Scenario,
  { at }: EveryCrashOptions = {},
): Promise<void> {
  const run = async (faultAt: Parameters<typeof createCallFaults>[0]): Promise<Ended> => {
    const faults = createCallFaults(faultAt);
    const world = await open(faults);
    await scenario(world);
    await world.settle();
    const ended = { state: await world.endState(), created: new Map(world.created()), calls: [...faults.calls()] };
    await world.resync();
    return ended;
  };
  const plain = await run(() => undefined);
  if (plain.calls.length === 0) throw new Error("the scenario causes no call of a controller: apply an object that one of them syncs");
  const points = plain.calls.flatMap((call) => ["before", "after"].map((side) => ({ call, side, name: `${side} ${call.index}` })));
  const chosen = at === undefined ? points : points.filter(({ name }) => name === at);
  if (chosen.length === 0)
    throw new Error(
      `there is no crash "${at}": the scenario has ${plain.calls.length} calls, so "before 1" to "after ${plain.calls.length}"`,
    );
  for (const { call, side, name } of chosen) {
    const why = await run(({ index }) => (index === call.index ? { kind: "dies", isDone: side === "after" } : undefined)).then(
      (ended) => whyDifferent(plain, ended),
      (error: unknown) => `the scenario fails: ${error instanceof Error ? error.message : String(error)}`,
    );
    if (why === undefined) continue;
    throw new Error(
      [
        `a crash ${side} call ${call.index} of ${plain.calls.length} (${call.key}: ${call.name}) changes the final state`,
        `  ${why}`,
        `  to reproduce: everyCrash(scenario, { at: "${name}" })`,
      ].join("\n"),
    );
  }
}

function whyDifferent(plain: Ended, { state, created }: Ended): string | undefined {
  for (const [id, times] of created) {
    const expected = plain.created.get(id) ?? 0;
    if (times > expected) return `${id} was created ${times} times, without the crash ${expected} times`;
  }
  return differenceBetween(plain.state, state);
}
