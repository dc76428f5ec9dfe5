export const BEHAVIOUR = { cutsReplicaSetNames: true, availabilityCheck: "next pod" } as const;
