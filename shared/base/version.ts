/** Version of this package, as package.json has it (a test compares them); sent in every User-Agent. */
export const VERSION = "0.1.0";
