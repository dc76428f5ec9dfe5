export type { LogLevel } from "./output/console-log.ts";
export { consoleLog, jsonLog } from "./output/console-log.ts";
export { printable, printableJson } from "./output/printable.ts";
