export { createSecretReader } from "./secrets/secret-reader.ts";
export { createSecrets } from "./secrets/secrets.ts";
export { createParameters } from "./secrets/parameters.ts";
export type { Parameters } from "./secrets/parameters.ts";
