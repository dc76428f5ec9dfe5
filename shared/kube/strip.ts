export { strip } from "./strip/strip.ts";
export { project } from "./strip/project.ts";
