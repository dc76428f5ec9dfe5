import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createMemoryStore } from "../../shared/store/memory/store/store.ts";
import { ownViewsConformance } from "./own-views.ts";

ownViewsConformance("in memory", (options) => createMemoryStore({ ...options, clock: createSystemClock() }));
