export { createLogind } from "./logind/logind.ts";
export { createSystemdCgroups } from "./systemd/cgroups.ts";
export { createSystemd } from "./systemd/systemd.ts";
