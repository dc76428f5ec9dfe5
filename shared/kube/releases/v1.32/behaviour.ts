import type { Behaviour } from "../release.ts";

export const BEHAVIOUR: Behaviour = {
  countsTerminating: false,
  cutsReplicaSetNames: false,
  availabilityCheck: "all ready",
  recreateAsksSelector: true,
};
