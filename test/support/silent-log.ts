import type { Log } from "../../shared/base/log.ts";

/** A log without output, for benchmarks and tests that do not check the log. */
export const silentLog: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
