export const BEHAVIOUR = { countsTerminating: true } as const;
