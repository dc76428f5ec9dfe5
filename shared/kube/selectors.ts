export { compileSelector, formatLabels, formatSelector, matches, selectorOf, selectsEverything } from "./selectors/selector.ts";
export type { Selector } from "./selectors/selector.ts";
