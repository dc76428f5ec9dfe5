export { createEmfMetrics } from "./emf/emf.ts";
