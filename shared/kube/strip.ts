export { POD_FIELDS } from "./strip/pod-fields.ts";
export { strip } from "./strip/strip.ts";
export { projected } from "./strip/project.ts";
export { viewName } from "./strip/view-definition.ts";
export type { ViewDefinition } from "./strip/view-definition.ts";
