export type { Head, Headers } from "./http/http-answer.ts";
export { createExchanges } from "./http/http-exchanges.ts";
export type { Exchanges } from "./http/http-exchanges.ts";
