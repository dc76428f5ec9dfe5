export const BEHAVIOUR = { recreateAsksSelector: false } as const;
