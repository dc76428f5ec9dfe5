export { isListedId, ConfigurationError, environmentOf, parseConfiguration, parseMacKeys } from "./lambda/configuration.ts";
export type { Configuration, Variables } from "./lambda/configuration.ts";
export { liveConfiguration } from "./lambda/live-configuration.ts";
export type { LiveConfiguration } from "./lambda/live-configuration.ts";
export { referencesIn } from "./lambda/secret-values.ts";
export { configurationVariables } from "./lambda/configuration-variables.ts";
