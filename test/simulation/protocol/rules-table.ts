/** `npm run sim -- --protocol --rules`: prints the table of disabled rules and the first seed that fails without each. */
import { RULES } from "../rules.ts";
import { runProtocol } from "./run-protocol.ts";

export async function printRules(seedsMax: number, print: (line: string) => void): Promise<void> {
  print("| rule switched off | first failing seed | CPU seconds | invariant |\n|---|---|---|---|");
  for (const rule of RULES) {
    const cpu = process.cpuUsage();
    const { failed } = await runProtocol({ first: 1, last: seedsMax, off: new Set([rule]), stop: true });
    const [first] = failed;
    const { user, system } = process.cpuUsage(cpu);
    print(`| ${rule} | ${first?.seed ?? `none (${seedsMax})`} | ${((user + system) / 1e6).toFixed(1)} | ${first?.rule ?? "–"} |`);
  }
}
