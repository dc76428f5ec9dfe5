import type { Behaviour } from "../release.ts";

export const BEHAVIOUR: Partial<Behaviour> = { countsTerminating: true };
