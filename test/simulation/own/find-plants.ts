/** `npm run sim -- --own --plants [--seeds N]`: finds, for each planted mistake, the first seed and the everyCrash test that detect it. */
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { Found } from "./plant.ts";
import { PLANTS } from "./plants.ts";

/** @returns whether both detected all mistakes */
export async function findPlants(seedsMax: number, print: (line: string) => void): Promise<boolean> {
  const left = [...PLANTS.entries()];
  let missed = 0;
  await Promise.all(
    Array.from({ length: availableParallelism() }, async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const [index, { what }] = next;
        const { seed, crash } = await findPlant(index, seedsMax);
        if (seed === undefined || crash === undefined) missed++;
        print(`${what}`);
        print(`  simulation: ${seed ? `seed ${seed.seed}: ${firstLine(seed.why)}` : "NOT FOUND"}`);
        print(`  everyCrash: ${crash ? `${crash.scene}: ${firstLine(crash.why)}` : "NOT FOUND"}`);
      }
    }),
  );
  print(`${PLANTS.length} planted mistakes, ${missed} not found by both`);
  return missed === 0;
}

async function findPlant(index: number, seedsMax: number): Promise<Found> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "plant.ts"), String(index), String(seedsMax)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return JSON.parse(await text(child.stdout)) as Found; // the output of plant.ts
}

function firstLine(why: string): string {
  return why.split("\n").slice(0, 2).join(" ").replaceAll(/\s+/g, " ");
}
