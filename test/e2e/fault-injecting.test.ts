/**
 * Upstream's workload controllers and ours behind the same fault-injecting API server, in front of a real one: the cases of
 * test/fault-profile/cases.ts, first with upstream's three workload controllers, then with `deltaloop dev --act`, each in its own
 * namespace.
 */
import { readFile, writeFile } from "node:fs/promises";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { CASES, playInTurns } from "../fault-profile/cases.ts";
import type { Case } from "../fault-profile/cases.ts";
import { WRITES } from "../fault-profile/fault-profile.ts";
import { expectedOutcome, lacksOnlyTransientFacts, outcomeOf } from "../fault-profile/outcome.ts";
import type { Outcome } from "../fault-profile/outcome.ts";
import { tooManyRequests } from "../fault-profile/refusals.ts";
import { startFaultInjectingServer } from "../fault-profile/server.ts";
import type { FaultInjectingServer } from "../fault-profile/server.ts";
import { deltaloop, measured, OWN_NAMESPACE, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { recordHistory } from "../support/history.ts";

type Side = "theirs" | "ours" | "ours-again";

/** Limit in ms for the start of its four processes and a second for each consecutive 429 response. */
const READY_MS_MAX = 90_000;
/** Time in ms without writes after which a case has ended, because a test cannot see pending writes. */
const STILL_MS = 1_500;

await whereRealPartsAre("a fault-injecting API server in front of a real one", () => {
  describe("behind a fault-injecting API server", () => {
    let cluster: Cluster;
    let road: FaultInjectingServer;
    let dev: Running;
    const theirs = new Map<string, Outcome>();

    beforeAll(async () => {
      cluster = await startCluster();
      const { plane } = cluster;
      const identity = await plane.clientCertificate("system:kube-controller-manager", []);
      const certificate = await plane.serverCertificate();
      road = await startFaultInjectingServer({ url: plane.url, ca: plane.ca, certificate, identities: [identity] });
      const endLoops = await plane.startWorkloadLoops({ server: road.url, identity });
      try {
        const from = performance.now();
        // Results are checked when all cases have ended: the recorder sends Events one by one, so the Events of one case wait for those of
        // another.
        const played = playInTurns(CASES, (given) => play(given, "theirs"));
        await Promise.allSettled(played.values());
        for (const [id, look] of played) theirs.set(id, await (await look)());
        measured(`upstream: ${CASES.length} cases in ${seconds(from)}`);
      } finally {
        await endLoops();
      }
      await cluster.kubectl("delete", "namespace", "--wait=false", ...CASES.map((given) => namespaceOf(given, "theirs")));
      dev = await startWithFaults();
    });
    afterAll(async () => {
      await dev?.stop();
      await road?.close();
      await cluster?.stop();
    });

    /** Starts `dev` while a third of its writes, mostly access reviews, get 429 responses. */
    async function startWithFaults(): Promise<Running> {
      const from = performance.now();
      const kubeconfig = `${cluster.rolesKubeconfig}.faulty`;
      await writeFile(kubeconfig, (await readFile(cluster.rolesKubeconfig, "utf8")).replaceAll(cluster.plane.url, road.url), {
        mode: 0o600,
      });
      const polite = road.behave({
        name: "start",
        about: { verbs: WRITES, client: "deltaloop/" },
        often: { every: 3 },
        fault: { kind: "refuse", with: tooManyRequests(1) },
      });
      const started = deltaloop(["dev", "--act", "--kubeconfig", kubeconfig, "--lease-namespace", OWN_NAMESPACE]);
      await started.line("ready:", READY_MS_MAX);
      polite();
      measured(`dev is ready after ${seconds(from)}`);
      return started;
    }

    /** @returns a function that reads the result, at any later time */
    async function play(given: Case, side: Side): Promise<() => Promise<Outcome>> {
      const namespace = namespaceOf(given, side);
      const { client } = cluster;
      await client.request("POST", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
      const history = await recordHistory(client, namespace);
      const polite = road.behave(...given.rules(namespace));
      const from = performance.now();
      try {
        await given.play({ namespace, client });
        measured(`${side} ${given.id}: ${seconds(from)}`);
        await new Promise((resolve) => setTimeout(resolve, STILL_MS));
        return () => outcomeOf(given, namespace, { client, exchanges: road.exchanges(), history });
      } finally {
        polite();
        await history.stop();
      }
    }

    /** Repeats a case and prints the missing facts, with what `dev` logged about them. */
    async function playAgain(given: Case, outcome: Outcome): Promise<Outcome> {
      const missing = given.facts.filter((fact) => !outcome.includes(fact));
      measured(`${given.id} is played again, because of ${missing.join(", ")}`);
      for (const line of dev.output().split("\n")) if (line.includes(namespaceOf(given, "ours"))) measured(line);
      const look = await play(given, "ours-again");
      return await look();
    }

    it("dev starts although a third of its writes get 429, and mentions 429 only where it waits for the API server or renews its Lease again", () => {
      const told = road.exchanges().filter(({ rule }) => rule === "start");
      expect(told.length).toBeGreaterThan(0);
      // A client whose call fails for two seconds logs once what it is waiting for. On a slow machine the start lasts until a renewal of the
      // Lease, which is logged at its first failure, as client-go does.
      const expected = ["waiting for the API server", "failed to renew the watcher's Lease, retrying"];
      const quoting = dev
        .output()
        .split("\n")
        .filter((line) => /\b429\b/.test(line));
      expect(quoting.filter((line) => !expected.some((text) => line.includes(text)))).toEqual([]);
    });

    describe("upstream's controllers behave as the case expects", () => {
      for (const given of CASES) it(given.name, () => expect(theirs.get(given.id)).toEqual(expectedOutcome(given)));
    });

    describe("deltaloop's controllers behave as the case expects", () => {
      let ours: ReturnType<typeof playInTurns<() => Promise<Outcome>>>;
      beforeAll(() => {
        ours = playInTurns(CASES, (given) => play(given, "ours"));
      });

      for (const given of CASES)
        it(given.name, async () => {
          const look = await ours.get(given.id);
          const outcome = (await look?.()) ?? [];
          expect(lacksOnlyTransientFacts(outcome, given) ? await playAgain(given, outcome) : outcome).toEqual(expectedOutcome(given));
        });
    });
  });
});

function namespaceOf({ id }: Case, side: Side): string {
  return `${id}-${side}`;
}

function seconds(from: number): string {
  return `${((performance.now() - from) / 1000).toFixed(1)} s`;
}
