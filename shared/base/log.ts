/** Fields of a log line. Values are never objects, so that no template or Secret is logged in a nested field. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** A constant message with fields of fixed names (`replicaSet`, `pod`, `key`, `attempt`, `delayMs`). */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}
