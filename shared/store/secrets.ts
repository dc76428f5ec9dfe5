export { createSecretReader } from "./secrets/secret-reader.ts";
export { createSecrets } from "./secrets/secrets.ts";
export { batches, createParameters, NAMES_MAX, numberOf } from "./secrets/parameters.ts";
export type { Parameters, ParameterValue } from "./secrets/parameters.ts";
