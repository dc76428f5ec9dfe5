export { createNodeCredentials } from "./credentials/credential-provider.ts";
