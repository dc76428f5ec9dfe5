import type { Log } from "../../shared/base/log.ts";

/** For benchmarks, and tests that look elsewhere. */
export const silentLog: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
