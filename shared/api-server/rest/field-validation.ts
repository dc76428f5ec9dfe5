/** `fieldValidation` of a write: what happens about fields that its kind does not have. */
import { fieldNotSupported, invalid } from "../scheme/api-error.ts";

/** Decodes with it, and finds out what to do. */
export interface FieldValidation {
  /** Unknown fields are an error. */
  readonly isStrict: boolean;
  /** Called for each unknown field of an accepted body. */
  readonly warn: (text: string) => void;
}

export const IGNORE: FieldValidation = { isStrict: false, warn: () => undefined };

const DIRECTIVES = ["", "Ignore", "Strict", "Warn"];

/**
 * @param directive of the request; none is Warn
 * @throws {ApiError} 422 for an unknown value
 */
export function fieldValidationOf(directive = "", options: string, warn: FieldValidation["warn"]): FieldValidation {
  if (!DIRECTIVES.includes(directive))
    throw invalid({ group: "meta.k8s.io", kind: options }, "", [fieldNotSupported("fieldValidation", directive, DIRECTIVES)]);
  return directive === "Ignore" ? IGNORE : { isStrict: directive === "Strict", warn };
}

/** Why a body with these unknown fields is refused; undefined if it is accepted. */
export function unknownFieldsProblem(paths: readonly string[], { isStrict, warn }: FieldValidation): string | undefined {
  const texts = paths.map((path) => `unknown field "${path}"`);
  if (isStrict && texts.length > 0) return `strict decoding error: ${texts.join(", ")}`;
  for (const text of texts) warn(text);
  return undefined;
}
