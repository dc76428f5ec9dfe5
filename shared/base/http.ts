export type { Head, Headers } from "./http/http-answer.ts";
export { openProxy } from "./http/http-connect.ts";
export type { Proxy } from "./http/http-connect.ts";
export { createExchanges } from "./http/http-exchanges.ts";
export type { Answer, AnswerStream, Exchanges } from "./http/http-exchanges.ts";
