/**
 * The administrator of one cluster, who sends messages in the name of another one. It has its own cluster's key (which no administrator
 * has), knows the other's id, epoch and keys, and may send to every queue.
 */
import type { Random } from "../../../shared/base/random.ts";
import { signBody } from "../../../shared/controllers/cache/messages/signed-body.ts";
import { CONTROLLERS } from "../../../shared/kube/objects/resources.ts";
import { doorbellParts } from "../../../shared/store/ports/doorbells.ts";
import { SHOP } from "../users.ts";
import { QUEUE_URLS } from "./deployment.ts";
import type { DeployedCluster, Deployment } from "./deployment.ts";

const KEYS = ["a", "b", "d", "e", "rc"].map((name) => `${SHOP}/${name}`);

export class Forger {
  readonly #deployment: Deployment;
  readonly #own: DeployedCluster;
  readonly #random: Random;
  #sent = 0;

  constructor(deployment: Deployment, own: DeployedCluster, random: Random) {
    this.#deployment = deployment;
    this.#own = own;
    this.#random = random;
  }

  async act(victim: DeployedCluster): Promise<void> {
    await this.#own.run(async () => {
      if (this.#random.next() < 0.5) this.#ring(victim);
      else await this.#send(victim);
    });
  }

  #ring({ cid, part }: DeployedCluster): void {
    const ctl = this.#pick(CONTROLLERS);
    const { epoch = "" } = part.data.epoch?.record ?? {};
    const bell = { v: 1, c: cid, ctl, e: epoch, k: this.#pick(KEYS) } as const;
    const signed = this.#own.part.signer.sign("d", doorbellParts(bell));
    const body = this.#pick([{ ...bell }, { ...bell, m: signed }, { ...bell, m: 1 }, { ...bell, u: "uid", m: signed }]);
    this.#deployment.ring(QUEUE_URLS[ctl], JSON.stringify({ ...body, n: ++this.#sent }), 0);
  }

  async #send({ cid, part }: DeployedCluster): Promise<void> {
    const { epoch = "" } = part.data.epoch?.record ?? {};
    const resource = this.#pick(["pods", "replicasets", "deployments"]);
    const items = [{ t: "D", key: this.#pick(KEYS), uid: "uid", rv: "9".repeat(18) }];
    const payload = JSON.stringify({ v: 2, c: cid, e: epoch, f: "9", g: 0, r: resource, l: 0, q: ++this.#sent, k: "D", items });
    const { signer } = this.#own.part;
    const body = this.#pick([
      signBody(signer, cid, payload),
      signBody(signer, this.#own.cid, payload).replace(this.#own.cid, cid),
      `${cid}.${"A".repeat(24)}.${payload}`,
    ]);
    await this.#deployment.send({ group: `${cid}.${resource}.forged`, id: `forged-${this.#own.cid}-${this.#sent}`, body });
  }

  #pick<T>(values: readonly T[]): T {
    return values[Math.floor(this.#random.next() * values.length)] as T; // the index is within the array
  }
}
