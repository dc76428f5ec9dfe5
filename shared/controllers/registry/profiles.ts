/**
 * Presets of a deployment's parameters, chosen by `--param profile=NAME`; each parameter can still be set by itself. infra/profiles.yml is
 * generated from this table.
 *
 * standard: no single failure stops the controllers for longer than a failover.
 * lean: the least that runs, for idle control planes: one zone, one store node without a replica (durability class C), no NAT gateway and no
 * interface endpoint (AWS services over IPv6), one watcher task, one store user, credentials as parameters, few alarms.
 */
export const PROFILES = {
  standard: {
    natGateway: "true",
    endpoints: "true",
    storeNodes: "2",
    keyArn: "make",
    redisDurability: "B",
    metrics: "emf",
  },
  lean: {
    natGateway: "false",
    endpoints: "false",
    storeNodes: "1",
    keyArn: "none",
    redisDurability: "C",
    metrics: "few",
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, string>>>>;

export type Profile = keyof typeof PROFILES;
