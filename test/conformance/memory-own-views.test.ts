import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createMemoryStore } from "../../shared/store/memory/store/store.ts";
import { outsideConformance } from "./own-outside.ts";
import { ownViewsConformance } from "./own-views.ts";

ownViewsConformance("in memory", (options) => createMemoryStore({ ...options, clock: createSystemClock() }));
outsideConformance("in memory", (options) => createMemoryStore({ ...options, clock: createSystemClock() }));
