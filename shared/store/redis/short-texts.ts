/** Shortens the texts that user controllers store, by the catalog's `rowTexts`. Built-in controllers store the long forms. */
import { BUILT_IN } from "@deltaloop/kube/objects";
import type { ControllerName, RowTexts, View } from "@deltaloop/kube/objects";

/** A catalog, or another object with a catalog's `rowTexts`. */
export interface Short {
  readonly rowTexts?: RowTexts | undefined;
}

const CORE = new Set<string>([...BUILT_IN.views, ...BUILT_IN.controllers]);

/** Shortens a text for the keys of a user controller; built-in controllers keep the long form. */
export function shortened({ rowTexts }: Short, of: View | ControllerName, text: string): string {
  return rowTexts && !CORE.has(of) ? rowTexts.shorten(text) : text;
}

/**
 * Expands a shortened text. Text that is not shortened is returned unchanged: it contains none of the control characters that the short
 * form uses.
 */
export function restored({ rowTexts }: Short, text: string): string {
  return rowTexts ? rowTexts.restore(text) : text;
}
