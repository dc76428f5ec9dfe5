/** Field values of a log line. Never an object: a template or a Secret cannot slip in by way of a nested field. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** A constant message plus fields under fixed names (`replicaSet`, `pod`, `key`, `attempt`, `delayMs`). */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}
