/** The command line of an npm script: `--help` prints the usage and exits with 0, a usage error prints one line and exits with 2. */
import { parseArgs } from "node:util";
import type { ParseArgsConfig } from "node:util";

import { messageOf } from "@deltaloop/kube/objects";

const EXIT_USAGE = 2;

/** Parses the arguments of the script `name`. Ends the process after `--help` and after a usage error. */
export function scriptOptions<const T extends ParseArgsConfig>(name: string, usage: string, config: T): ReturnType<typeof parseArgs<T>> {
  if (process.argv.includes("--help")) {
    process.stdout.write(usage);
    process.exit(0);
  }
  try {
    return parseArgs(config);
  } catch (error) {
    process.stderr.write(`${name}: ${messageOf(error).replace(/\. .*/su, "")}; see npm run ${name} -- --help\n`);
    process.exit(EXIT_USAGE);
  }
}
