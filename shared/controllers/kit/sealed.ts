/** Keeps values that may contain secrets (a pod template, a live object) out of logs, JSON and stack traces. */

/**
 * A value that prints as its digest: `console.log`, `util.inspect`, `JSON.stringify` and string interpolation all show
 * `sealed(<digest>)`. Only `open()` returns the value; call it where the value is sent.
 */
export class Sealed<T> {
  readonly #value: T;
  readonly #digest: string;

  constructor(value: T, digest: string) {
    this.#value = value;
    this.#digest = digest;
  }

  open(): T {
    return this.#value;
  }

  toString(): string {
    return `sealed(${this.#digest})`;
  }

  toJSON(): string {
    return this.toString();
  }

  /** Called by `console.log` and `util.inspect`; the well-known symbol needs no import. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }
}
