export { keepCompiledCode } from "./nodejs/compiled-code.js";
export { tooOld } from "./nodejs/node-version.js";
