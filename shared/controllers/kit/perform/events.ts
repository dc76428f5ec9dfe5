/** The Events of a run: recorded while it runs, sent when its handler has ended. */
import { correlate, noCorrelations } from "@deltaloop/kube/events";
import type { Correlated } from "@deltaloop/kube/events";
import { isBuiltIn } from "@deltaloop/kube/objects";
import { describeError, isNotFound } from "@deltaloop/kube/client";
import type { ToldHappening } from "@deltaloop/store/ports";
import { eventRequests, happeningsOf } from "../event-recorder.ts";
import type { EventOwner, EventRequest, Teller, ToldNote } from "../event-recorder.ts";
import type { RunGateway } from "../write-gateway/gateway.ts";
import { loggedNote } from "../logged.ts";
import type { OwnRun, Run, SyncPorts } from "../run.ts";
import type { EventNote } from "../writes.ts";

export class RunEvents {
  readonly #ports: SyncPorts;
  readonly #run: Run | OwnRun;
  readonly #notes: ToldNote[] = [];

  constructor(ports: SyncPorts, run: Run | OwnRun) {
    this.#ports = ports;
    this.#run = run;
  }

  get hasNotes(): boolean {
    return this.#notes.length > 0;
  }

  note(owner: EventOwner, notes: readonly EventNote[]): void {
    const { trace, clock, gateway } = this.#ports;
    const { controller, key } = this.#run;
    for (const note of notes) {
      if (isBuiltIn(controller)) trace?.({ controller, key, kind: "event", note: loggedNote(note) });
      if (gateway.mode === "act") this.#notes.push({ owner, note, atMs: clock.now() });
    }
  }

  /** Sends all notes: one command of the Store, then one request per Event, without retries. Never fails. */
  async send(gateway: () => RunGateway): Promise<void> {
    const notes = this.#notes.splice(0);
    const { controller, token, snapshot, mayWrite } = this.#run;
    if (notes.length === 0 || !mayWrite()) return;
    const teller = { controller, token, ...(snapshot.primary && { resourceVersion: snapshot.primary.rv }) };
    const correlated = await this.#correlated(teller, happeningsOf(notes, teller, this.#ports.digester));
    await Promise.all(eventRequests(notes, correlated, teller).map((request) => this.#sendOne(gateway(), request)));
  }

  /** Correlates the notes. Without the Store there is no history, as in a controller-manager that has just started. */
  async #correlated({ controller }: Teller, happenings: readonly ToldHappening[]): Promise<readonly Correlated[]> {
    const { store, log, clock } = this.#ports;
    try {
      return await store.correlateEvents(controller, happenings);
    } catch (error) {
      log.warn("failed to correlate Events: they are sent without their history", { key: this.#run.key, error: describeError(error) });
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
