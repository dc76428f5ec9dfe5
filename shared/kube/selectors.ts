export { compileSelector, formatLabels, formatSelector, matches, selectorOf, selectsEverything } from "./selectors/selector.ts";
export type { Requirement, Selector } from "./selectors/selector.ts";
