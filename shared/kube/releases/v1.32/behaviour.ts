export const BEHAVIOUR = {
  countsTerminating: false,
  cutsReplicaSetNames: false,
  availabilityCheck: "all ready",
  recreateAsksSelector: true,
  writesStatusAfterFailure: false,
} as const;
