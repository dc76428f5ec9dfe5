/** Runs fauxqs as a process: `node fauxqs-process.ts PORT` prints its endpoint as one line and exits when its standard input ends. */
import { startFauxqs } from "./fauxqs.ts";

const sqs = await startFauxqs({ port: Number(process.argv[2] ?? 0) });
process.stdout.write(`${sqs.endpoint}\n`);
const end = (): void => void sqs.stop().finally(() => process.exit(0));
process.stdin.on("end", end).resume();
process.on("SIGTERM", end).on("SIGINT", end);
