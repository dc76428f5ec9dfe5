import { spawn } from "node:child_process";
import { pathToFileURL } from "node:url";

const RUNS = 5;
const MEASURE = "const t = performance.now(); await import(process.argv[1]); console.log(performance.now() - t); process.exit(0);";

/** Returns the milliseconds that a fresh Node process takes to import `file`: the minimum of RUNS, since load only adds time. */
export async function importMs(file: string): Promise<number> {
  const times: number[] = [];
  for (let run = 0; run < RUNS; run++) times.push(await once(file));
  return Math.min(...times);
}

async function once(file: string): Promise<number> {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", MEASURE, pathToFileURL(file).href], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const code = await new Promise<number | null>((resolve, reject) => child.once("error", reject).once("close", resolve));
  if (code !== 0) throw new Error(`${file} cannot be imported`);
  return Number(output);
}
