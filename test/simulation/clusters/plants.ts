/** Mistakes in the rules that keep clusters apart. Each breaks an invariant of deployment.ts or ../checks.ts. */
export const PLANTS = {
  /** The cluster id in a doorbell selects the functions without a check of its sender. */
  unsignedDoorbells: { crosses: "NX4" },
  /** MAC keys are not derived per cluster. */
  oneKeyForAll: { crosses: "NX2" },
  /** Store keys do not contain the cluster id. */
  keysWithoutCluster: { crosses: "SE1cache" },
  /** Clients are cached by the name of the component. */
  clientsByComponent: { crosses: "NX1" },
} as const satisfies Readonly<Record<string, { readonly crosses: string }>>;
export type Plant = keyof typeof PLANTS;
