export { ApiServer, createApiServer } from "./api-server.ts";
export type { RequestRecord } from "./api-server.ts";
export { runBinder } from "./binder.ts";
export { serveHttp } from "./http.ts";
export type { HttpApiServer } from "./http.ts";
export { createInProcessClient, createInProcessKube } from "./in-process-client.ts";
export { runScriptedNodes } from "./scripted-nodes/scripted-nodes.ts";
export type { ScriptedNodesOptions } from "./scripted-nodes/scripted-nodes.ts";
export { parseLabelSelector } from "./storage/selectors.ts";
