/** Short forms of what user controllers store, by the catalog's `rowTexts`. Built-in controllers store the long forms. */
import { BUILT_IN } from "@deltaloop/kube/objects";
import type { ControllerName, RowTexts, View } from "@deltaloop/kube/objects";

/** A catalog, or what has the `rowTexts` of one. */
export interface Short {
  readonly rowTexts?: RowTexts | undefined;
}

const CORE = new Set<string>([...BUILT_IN.views, ...BUILT_IN.controllers]);

/** A text that the keys of a view or controller contain. */
export function shortened({ rowTexts }: Short, of: View | ControllerName, text: string): string {
  return rowTexts && !CORE.has(of) ? rowTexts.shorten(text) : text;
}

/** A text of any view or controller: long forms contain no codes of short ones. */
export function restored({ rowTexts }: Short, text: string): string {
  return rowTexts ? rowTexts.restore(text) : text;
}
