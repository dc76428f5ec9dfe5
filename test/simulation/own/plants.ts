/** Mistakes in the engine of user controllers, as edits of its sources. Each edit must match once. */
export interface Plant {
  readonly what: string;
  readonly edits: readonly { readonly file: string; readonly from: string; readonly to: string }[];
}

const PERFORM = "controllers/own/perform.ts";
const CONTRACT = "controllers/own/contract.ts";
const SYNC = "controllers/own/sync.ts";
const DECIDE = "sdk/writes/decide-writes.ts";
const ANSWER = "sdk/writes/after-answer.ts";
const KEYS = "controllers/own/affected-keys.ts";
const PROJECT = "controllers/own/project.ts";

export const PLANTS: readonly Plant[] = [
  {
    what: "no live read before a create",
    edits: [{ file: PERFORM, from: "if (needsLiveRead) {", to: "if (needsLiveRead && writes.length < 0) {" }],
  },
  {
    what: "a prune without uid",
    edits: [
      {
        file: PERFORM,
        from: "preconditions: { uid: write.uid, resourceVersion: write.resourceVersion },",
        to: "preconditions: { resourceVersion: write.resourceVersion } as never,",
      },
      { file: CONTRACT, from: 'const PRECONDITIONS = ["/uid", "/resourceVersion"];', to: 'const PRECONDITIONS = ["/resourceVersion"];' },
    ],
  },
  {
    what: "no last-write record",
    edits: [{ file: PERFORM, from: "[{ id, record }, ...ended]", to: "record.uid === '' ? [{ id, record }] : [...ended]" }],
  },
  {
    what: "every apply is forced",
    edits: [{ file: PERFORM, from: "const force = isForced ? ", to: "const force = isForced || true ? " }],
  },
  {
    what: "an object with the wanted name is adopted",
    edits: [{ file: ANSWER, from: "if (isOurs) return", to: "if (isOurs || id.name !== '') return" }],
  },
  {
    what: "a status without uid and resourceVersion",
    edits: [
      {
        file: PERFORM,
        from: "{ apiVersion, kind, metadata: identity, status: write.body }",
        to: "{ apiVersion, kind, metadata: { name: primary.name, ...(primary.namespace !== '' && { namespace: primary.namespace }) }, status: write.body }",
      },
      {
        file: CONTRACT,
        from: `subresource: "status",
            ...self,
            require: IDENTITY,`,
        to: `subresource: "status",
            ...self,
            require: [],`,
      },
    ],
  },
  {
    what: "leaving `where` removes what `self` set",
    edits: [
      {
        file: PERFORM,
        from: "if (ownFields(cachedOf(this.#row)).isManaged !== true) return;",
        to: `if (ownFields(cachedOf(this.#row)).isManaged !== true) return;
    const emptied = { kind: "self", body: {}, uid: this.#observed.primary.uid, resourceVersion: this.#version, isRevert: false, why: "no longer desired" } as never;
    await this.#send(emptied);`,
      },
    ],
  },
  {
    what: "the entry of a create is forgotten",
    edits: [{ file: PROJECT, from: "...(isCreatedBy(whole, manager) && { isCreated: true as const }),", to: "" }],
  },
  {
    what: "a resync sends everything again",
    edits: [{ file: DECIDE, from: "return record.content === content ? undefined :", to: "return record.content === '' ? undefined :" }],
  },
  {
    what: "changes of objects that the controller has written enqueue nothing",
    edits: [
      {
        file: KEYS,
        from: "if (before && after && !isChanged(",
        to: "if (before && after && view.role === 'owned' && ownFields(after).isManaged) return [];\n    if (before && after && !isChanged(",
      },
    ],
  },
  {
    what: "a remove without resourceVersion",
    edits: [
      {
        file: PERFORM,
        from: "const preconditions = { uid: write.uid, resourceVersion: this.#version };",
        to: "const preconditions = { uid: write.uid };",
      },
      { file: CONTRACT, from: 'const PRECONDITIONS = ["/uid", "/resourceVersion"];', to: 'const PRECONDITIONS = ["/uid"];' },
    ],
  },
  {
    what: "answers are not written through",
    edits: [{ file: PERFORM, from: "await this.#save(view, { object }, [{ id, record }, ...ended]);", to: "void [view, record, ended];" }],
  },
  {
    what: "objects are pruned although a name is taken",
    edits: [
      { file: SYNC, from: '&& !(isIncomplete && write.kind === "prune")', to: "" },
      { file: PERFORM, from: 'if (isHeld && write.kind === "prune") continue; // OW3', to: "" },
    ],
  },
];
