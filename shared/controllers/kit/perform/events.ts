/** What a run tells people: noted while it runs, and sent when its handler has ended. */
import { correlate, noCorrelations } from "@deltaloop/kube/events";
import type { Correlated } from "@deltaloop/kube/events";
import { describeError, isNotFound } from "@deltaloop/kube/client";
import type { ToldHappening } from "@deltaloop/store/ports";
import { eventRequests, happeningsOf } from "../event-recorder.ts";
import type { EventRequest, Teller, ToldNote } from "../event-recorder.ts";
import type { RunGateway } from "../write-gateway/gateway.ts";
import { loggedNote } from "../logged.ts";
import type { Run, SyncPorts } from "../run.ts";
import type { EventNote, Owner } from "../writes.ts";

export class RunEvents {
  readonly #ports: SyncPorts;
  readonly #run: Run;
  readonly #told: ToldNote[] = [];

  constructor(ports: SyncPorts, run: Run) {
    this.#ports = ports;
    this.#run = run;
  }

  get hasNotes(): boolean {
    return this.#told.length > 0;
  }

  note(owner: Owner, notes: readonly EventNote[]): void {
    const { trace, clock, gateway } = this.#ports;
    const { controller, key } = this.#run;
    for (const note of notes) {
      trace?.({ controller, key, kind: "event", note: loggedNote(note) });
      if (gateway.mode === "act") this.#told.push({ owner, note, atMs: clock.now() });
    }
  }

  /** One command of the Store for all of them, and one request an Event, each tried once. Never fails. */
  async send(gateway: () => RunGateway): Promise<void> {
    const told = this.#told.splice(0);
    const { controller, token, snapshot, mayWrite } = this.#run;
    if (told.length === 0 || !mayWrite()) return;
    const teller = { controller, token, ...(snapshot.primary && { resourceVersion: snapshot.primary.rv }) };
    const correlated = await this.#correlated(teller, happeningsOf(told, teller, this.#ports.digester));
    await Promise.all(eventRequests(told, correlated, teller).map((request) => this.#sendOne(gateway(), request)));
  }

  /** A Store that does not answer is one that remembers nothing: what a controller-manager would send that was just started. */
  async #correlated({ controller }: Teller, happenings: readonly ToldHappening[]): Promise<readonly Correlated[]> {
    const { store, log, clock } = this.#ports;
    try {
      return await store.correlateEvents(controller, happenings);
    } catch (error) {
      log.warn("events not correlated", { key: this.#run.key, error: describeError(error) });
      const memory = noCorrelations();
      return happenings.map((each) => correlate(memory, { ...each, message: each.key }, clock.now()));
    }
  }

  async #sendOne(gateway: RunGateway, request: EventRequest): Promise<void> {
    const { namespace } = request;
    try {
      if (request.kind === "create") return void (await gateway.create({ resource: "events", namespace, body: request.body }));
      const { name, body, ifMissing } = request;
      try {
        await gateway.patch({ resource: "events", namespace, name, type: "application/strategic-merge-patch+json", body });
      } catch (error) {
        if (!isNotFound(error)) throw error;
        await gateway.create({ resource: "events", namespace, body: ifMissing });
      }
    } catch (error) {
      this.#ports.log.warn("event not written", { key: this.#run.key, error: describeError(error) });
    }
  }
}
