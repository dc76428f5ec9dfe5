export { strip } from "./strip/strip.ts";
