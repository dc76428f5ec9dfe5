import type { Behaviour } from "../release.ts";

export const BEHAVIOUR: Partial<Behaviour> = { cutsReplicaSetNames: true, availabilityCheck: "next pod" };
