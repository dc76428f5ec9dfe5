/** The version in package.json (a test compares them), sent in every User-Agent. */
export const VERSION = "0.1.0";
