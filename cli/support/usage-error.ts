/** What a person asked for cannot be meant so. One line per mistake; the program prints them and ends with code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** A whole number from the command line. @throws {UsageError} */
export function wholeNumber(option: string, range: { readonly min: number; readonly max: number }): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < range.min || value > range.max)
      throw new UsageError(`${option} takes a whole number from ${range.min} to ${range.max}, not "${text}"`);
    return value;
  };
}
