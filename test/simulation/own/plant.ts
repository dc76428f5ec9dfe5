/**
 * `node plant.ts INDEX SEEDS`, a separate process: loads the engine with a planted mistake and prints as JSON which checks detect it.
 * Without INDEX, it plants nothing.
 */
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import { messageOf } from "../../../shared/kube/objects/errors.ts";
import { PLANTS } from "./plants.ts";

/** The result of one process. */
export interface Found {
  /** The first seed that fails, and its message. */
  readonly seed?: { readonly seed: number; readonly why: string };
  /** The failure of everyCrash for the plant's example. */
  readonly crash?: { readonly scene: string; readonly why: string };
}

const [index = "-1", seeds = "0"] = process.argv.slice(2);
const { edits, example } = PLANTS[Number(index)] ?? { edits: [], example: "" };
const planted = new Set<string>();
registerHooks({
  load(url, context, next) {
    const own = edits.filter(({ file }) => url.endsWith(`/shared/${file}`));
    if (own.length === 0) return next(url, context);
    let source = readFileSync(fileURLToPath(url), "utf8");
    for (const { file, from, to } of own) {
      if (source.split(from).length !== 2) throw new Error(`${file} has ${source.split(from).length - 1} times: ${from}`);
      source = source.replace(from, () => to);
      planted.add(from);
    }
    return { format: "module-typescript", source, shortCircuit: true };
  },
});
const { simulateOwn } = await import("./simulate-own.ts");
const { SCENES, play } = await import("./scenes.ts");
const { world } = await import("../../../shared/test-kit/index.ts");
if (planted.size !== edits.length) throw new Error(`planted ${planted.size} of ${edits.length} edits`);

let crash: Found["crash"];
for (const scene of SCENES.filter(({ name }) => name === example)) {
  const w = await world({ controllers: scene.controllers, builtIn: false });
  await w.everyCrash((each) => play(each, scene)).catch((error: unknown) => (crash = { scene: scene.name, why: messageOf(error) }));
}
let seed: Found["seed"];
for (let each = 1; each <= Number(seeds) && seed === undefined; each++)
  await simulateOwn(each).catch((error: unknown) => (seed = { seed: each, why: messageOf(error) }));
process.stdout.write(JSON.stringify({ ...(seed && { seed }), ...(crash && { crash }) } satisfies Found));
process.exit();
