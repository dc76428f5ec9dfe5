export { createProber } from "./prober/prober.ts";
