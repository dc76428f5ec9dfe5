/** The product's applier for messages that are objects instead of signed text. */
import type { Clock } from "../../../shared/base/clock.ts";
import { applyEnvelope } from "../../../shared/controllers/cache/applier.ts";
import type { Verdict } from "../../../shared/controllers/cache/applier.ts";
import { ENVELOPE_VERSION } from "../../../shared/controllers/cache/messages/envelope.ts";
import type { Envelope } from "../../../shared/controllers/cache/messages/envelope.ts";
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import type { KubeReader } from "../../../shared/kube/client/kube.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import type { Doorbell } from "../../../shared/store/ports/doorbells.ts";
import type { ManifestRow, PackHeader, Store } from "../../../shared/store/ports/store.ts";
import { testSigner } from "../../support/signer.ts";
import { silentLog } from "../../support/silent-log.ts";
import type { Event } from "./api.ts";
import { DEPLOYMENT } from "./ground.ts";

export type Message = Pick<PackHeader, "resource" | "lane" | "fence" | "generation" | "sequence" | "epoch"> & { readonly atMs: number } & (
    | { readonly kind: "D"; readonly items: readonly Event[] }
    | { readonly kind: "L"; readonly items: readonly Event[]; readonly listRV: string }
    | { readonly kind: "W"; readonly watermark: string }
    | { readonly kind: "M"; readonly rows: readonly ManifestRow[]; readonly listRV: string }
  );

export interface ApplyPorts {
  readonly store: Store;
  readonly clock: Clock;
  readonly ring: (bells: readonly Doorbell[]) => void;
  /** Called before each change of the Store. */
  readonly pause: () => Promise<void>;
}

const none = (): Promise<never> => Promise.reject(new Error("unexpected live read in a schedule"));
const READER: KubeReader = { get: none, list: none };
const DIGESTER = createDigester("schedules");

export function apply({ store, clock, ring, pause }: ApplyPorts, message: Message): Promise<Verdict> {
  const paused: Store = {
    ...store,
    applyPack: async (...args) => (await pause(), store.applyPack(...args)),
    applyManifest: async (...args) => (await pause(), store.applyManifest(...args)),
  };
  const doorbells = { ring: async (bells: readonly Doorbell[]) => ring(bells) };
  const cluster = { store: paused, doorbells, reader: READER, signer: testSigner(DEPLOYMENT) };
  const ports = { cluster: () => cluster, clusters: [DEPLOYMENT], registry: CORE_CACHE, digester: DIGESTER, clock, log: silentLog };
  return applyEnvelope(ports, cluster, envelopeOf(message));
}

function envelopeOf(message: Message): Envelope {
  const { resource: r, epoch: e, fence: f, generation: g, lane: ln, sequence: sq, atMs: ts } = message;
  const head = { v: ENVELOPE_VERSION, c: DEPLOYMENT, r, e, f, g, ln, sq, ts } as const;
  switch (message.kind) {
    case "D":
      return { ...head, k: "D", items: message.items.map(itemOf) };
    case "L":
      return { ...head, k: "L", L: message.listRV, items: message.items.map(itemOf) };
    case "W":
      return { ...head, k: "W", rv: message.watermark };
    case "M":
      return { ...head, k: "M", L: message.listRV, part: 1, parts: 1, rows: message.rows };
  }
}

function itemOf({ type, isNew, key, uid, rv, object }: Event) {
  const t = type === "delete" ? "D" : isNew ? "A" : "M";
  return { t, key, uid, rv: String(rv), o: object } as const;
}
