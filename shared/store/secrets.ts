export { createSecretReader } from "./secrets/secret-reader.ts";
export { createSecrets } from "./secrets/secrets.ts";
