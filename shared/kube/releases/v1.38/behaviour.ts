export const BEHAVIOUR = { writesStatusAfterFailure: true } as const;
