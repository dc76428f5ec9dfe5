export { runHealthServer } from "./server/health-server.ts";
export { syncLoopSilence } from "./server/health.ts";
export { startNodeApi } from "./server/server.ts";
