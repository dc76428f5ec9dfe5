/** The watchers of a deployment in one Redis hash (MR1–MR5); one command for each heartbeat. */
import type { Cluster, Redis } from "ioredis";

import type { Clock } from "@deltaloop/base";
import { MEMBER_FORGET_MS, MEMBER_SILENT_MS, MOVES_MAX } from "../ports/members.ts";
import type { Member, MemberClaims, Members } from "../ports/members.ts";
import type { Signer } from "../signer.ts";
import { asList, asText, connect } from "./connection.ts";
import type { Reply } from "./connection.ts";
import { KeyTable, membersKey } from "./keys.ts";

export interface RedisMembersOptions {
  readonly deployment: string;
  /** Signs the claims: a signer of the deployment, not of a cluster. */
  readonly signer: Signer;
  /** In place of the server's clock. */
  readonly clock?: Pick<Clock, "now">;
}

const LIMITS = { silentMs: MEMBER_SILENT_MS, forgetMs: MEMBER_FORGET_MS, movesMax: MOVES_MAX };

export function createRedisMembers(client: Redis | Cluster, { deployment, signer, clock }: RedisMembersOptions): Members {
  const connection = connect(client);
  const run = async (id: string, body: string, moves: readonly string[]): Promise<readonly Reply[]> => {
    const { script, keys, args } = new KeyTable("beat", membersKey(deployment), {}).call("", { id, body, moves: moves.join(), ...LIMITS });
    return asList(await connection.run(script, keys, [clock ? String(clock.now()) : "", ...args]));
  };
  return {
    async beat(id, claims, moves) {
      const [nowMs, joinedMs, granted, ...others] = await run(id, bodyOf(id, claims, signer), moves);
      return {
        nowMs: Number(asText(nowMs)),
        joinedMs: Number(asText(joinedMs)),
        granted: listOf(asText(granted)),
        others: others.flatMap((other) => memberOf(asList(other), signer)),
      };
    },
    leave: async (id) => void (await run(id, "", [])),
  };
}

/** A signature over the id and the claims, and the claims. */
function bodyOf(id: string, { leads, waits }: MemberClaims, signer: Signer): string {
  const parts = [leads.join(), waits.join()];
  return [signer.sign("m", [id, ...parts]), ...parts].join(" ");
}

/** Returns none for a record without a valid signature (MR4). */
function memberOf([name, joined, at, body]: readonly Reply[], signer: Signer): readonly Member[] {
  const id = asText(name);
  const [signature = "", leads = "", waits = ""] = asText(body).split(" ");
  const verdict = signer.verify("m", [id, leads, waits], signature);
  if (verdict !== "current" && verdict !== "former") return [];
  return [{ id, joinedMs: Number(asText(joined)), beatMs: Number(asText(at)), leads: listOf(leads), waits: listOf(waits) }];
}

function listOf(text: string): readonly string[] {
  return text === "" ? [] : text.split(",");
}
