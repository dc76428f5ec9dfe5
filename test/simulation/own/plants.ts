/** Mistakes in the engine of user controllers, as edits of its sources. Each edit must match once. */
export interface Plant {
  readonly what: string;
  /** The example whose everyCrash test detects the mistake. */
  readonly example: string;
  readonly edits: readonly { readonly file: string; readonly from: string; readonly to: string }[];
}

const PERFORM = "controllers/own/perform.ts";
const REQUESTS = "controllers/own/requests.ts";
const CONTRACT = "controllers/own/contract.ts";
const DECIDE = "sdk/writes/decide-writes.ts";
const KEYS = "controllers/own/affected-keys.ts";
const PROJECT = "controllers/own/project.ts";

export const PLANTS: readonly Plant[] = [
  {
    what: "no live read before a create",
    example: "team-guard",
    edits: [{ file: PERFORM, from: "if (needsLiveRead) {", to: "if (needsLiveRead && writes.length < 0) {" }],
  },
  {
    what: "a prune without a uid precondition",
    example: "team-guard",
    edits: [
      {
        file: REQUESTS,
        from: "preconditions: { uid: write.uid, resourceVersion: write.resourceVersion },",
        to: "preconditions: { resourceVersion: write.resourceVersion } as never,",
      },
      { file: CONTRACT, from: 'const PRECONDITIONS = ["/uid", "/resourceVersion"];', to: 'const PRECONDITIONS = ["/resourceVersion"];' },
    ],
  },
  {
    what: "no last-write record",
    example: "team-guard",
    edits: [{ file: PERFORM, from: "[{ id, record }, ...ended]", to: "record.uid === '' ? [{ id, record }] : [...ended]" }],
  },
  {
    what: "every apply is forced",
    example: "scheduled-scaler",
    edits: [{ file: REQUESTS, from: "const force = isForced ? ", to: "const force = isForced || true ? " }],
  },
  {
    what: "a create is sent as an apply, which adopts an existing object of the same name",
    example: "team-guard",
    edits: [
      {
        file: REQUESTS,
        from: "return okOf(await this.#gateway.create(request));",
        to: "return okOf(await this.#gateway.patch({ ...patchOf(this.viewOf(write.id), write.id, request.body), force: true }));",
      },
      {
        file: CONTRACT,
        from: `verb: "create",
      resource,
      of: "new",`,
        to: `verb: "patch",
      type: APPLY,
      resource,
      of: "new",`,
      },
    ],
  },
  {
    what: "a status write without uid and resourceVersion",
    example: "website",
    edits: [
      {
        file: REQUESTS,
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
    example: "scheduled-scaler",
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
    what: "objects that the controller created are not marked as created",
    example: "pull-secret",
    edits: [{ file: PROJECT, from: "...(isCreatedBy(whole, manager) && { isCreated: true as const }),", to: "" }],
  },
  {
    what: "a resync sends everything again",
    example: "team-guard",
    edits: [{ file: DECIDE, from: "return record.content === content ? undefined :", to: "return record.content === '' ? undefined :" }],
  },
  {
    what: "changes of objects that the controller has written enqueue no keys",
    example: "team-guard",
    edits: [
      {
        file: KEYS,
        from: "if (before && after && !isChanged(",
        to: "if (before && after && view.role === 'owned' && ownFields(after).isManaged) return [];\n    if (before && after && !isChanged(",
      },
    ],
  },
  {
    what: "a delete of the primary without a resourceVersion precondition",
    example: "pod-janitor",
    edits: [
      {
        file: REQUESTS,
        from: "const preconditions = { uid: write.uid, resourceVersion: version };",
        to: "const preconditions = { uid: write.uid };",
      },
      {
        file: CONTRACT,
        from: '{ what: `delete ${primary.kind}`, verb: "delete", ...self, require: PRECONDITIONS,',
        to: '{ what: `delete ${primary.kind}`, verb: "delete", ...self, require: ["/uid"],',
      },
    ],
  },
  {
    what: "responses are not written through",
    example: "team-guard",
    edits: [
      {
        file: PERFORM,
        from: "await this.#save(view, { object: cached }, [{ id, record }, ...ended], finalResult);",
        to: "void [view, record, ended, finalResult];",
      },
    ],
  },
];
