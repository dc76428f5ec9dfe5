/** Fields of a log line. Values are never objects, so that no template or Secret is logged in a nested field. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** A constant message with fields of fixed names (`replicaSet`, `pod`, `key`, `attempt`, `delayMs`). */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

/** Longest value of a field, in characters. */
const VALUE_LENGTH_MAX = 1_024;
/** Longest text in double quotes within a value. */
const QUOTE_LENGTH_MAX = 256;
const LONG_QUOTE = new RegExp(`"([^"]{${QUOTE_LENGTH_MAX}})[^"]+(?:"|$)`, "g");

/** Shortens long values and long quotes in them, so that external input cannot fill the log. */
export function boundedFields(fields: LogFields): LogFields {
  const isLong = (value: unknown): value is string => typeof value === "string" && value.length > QUOTE_LENGTH_MAX;
  if (!Object.values(fields).some(isLong)) return fields;
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, isLong(value) ? shortened(value) : value]));
}

function shortened(value: string): string {
  const text = value.slice(0, 2 * VALUE_LENGTH_MAX).replace(LONG_QUOTE, '"$1…"');
  return text.length > VALUE_LENGTH_MAX || value.length > 2 * VALUE_LENGTH_MAX ? `${text.slice(0, VALUE_LENGTH_MAX)}…` : text;
}
