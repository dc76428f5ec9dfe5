export { createContext } from "./context/create-context.ts";
export type { Snapshot, Surroundings, VisibleObject } from "./context/create-context.ts";
