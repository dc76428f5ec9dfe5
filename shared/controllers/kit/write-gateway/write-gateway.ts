/** The write gateway (described in gateway.ts): checks the contract and the run's owner before it calls a KubeWriter. */
import type { ControllerName, KubeObject } from "@deltaloop/kube/objects";
import { TerminalError } from "@deltaloop/kube/client";
import type { KubeWriter } from "@deltaloop/kube/client";
import type { ContractRow } from "./contract.ts";
import type { Answer, RunOwner, WriteGateway } from "./gateway.ts";
import { strayPointer, valueAt } from "./json-pointer.ts";
import { bindingProblem } from "./run-binding.ts";
import type { BoundCall, PrimaryKind } from "./run-binding.ts";

/** A controller's permitted writes: its registry entry's contract, and the kind of its primaries. */
export interface GatewayContract {
  readonly rows: readonly ContractRow<string>[];
  readonly primary: PrimaryKind;
}

/** Without a `contract` nothing may be written. */
export function createWriteGateway(
  writer: KubeWriter,
  controller: ControllerName,
  mode: WriteGateway["mode"],
  contract: GatewayContract | undefined,
): WriteGateway {
  // The same name in every function, because several functions may sync keys of one controller.
  const fieldManager = `deltaloop-${controller}`;
  return {
    mode,
    forRun: (owner) => {
      const send = async (call: Asked, execute: () => Promise<KubeObject | undefined>): Promise<Answer> => {
        admit(controller, contract, owner, call);
        if (mode === "shadow") return { kind: "notSent" };
        return { kind: "stored", object: await execute() };
      };
      return {
        create: (request) => send({ verb: "create", ...request }, () => writer.create({ ...request, fieldManager })),
        patch: (request, row) => send({ verb: "patch", ...request, row }, () => writer.patch({ ...request, fieldManager })),
        delete: (request, row) => send({ verb: "delete", ...request, body: request.preconditions, row }, () => writer.delete(request)),
      };
    },
  };
}

interface Asked extends Pick<ContractRow, "verb" | "resource" | "subresource" | "type">, BoundCall {}

/**
 * Checks a call against the contract and the run's owner.
 *
 * @throws {TerminalError} with the first broken rule; names paths and objects, never a value
 */
function admit(controller: ControllerName, allowed: GatewayContract | undefined, owner: RunOwner, call: Asked): void {
  const { verb, resource, subresource, type, body } = call;
  const target = `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`}${type === undefined ? "" : ` (${type})`}`;
  if (allowed === undefined) throw new TerminalError(`${controller} has no contract and may not write: ${target}`);
  const candidates = allowed.rows.filter(
    (row) => row.verb === verb && row.resource === resource && row.subresource === subresource && row.type === type,
  );
  const problems = candidates.map((row) => problemOf(row, body));
  const contract = candidates.find((_, i) => problems[i] === undefined);
  if (contract === undefined)
    throw new TerminalError(
      `the contract of ${controller} does not allow ${target}${problems.length > 0 ? `: ${problems.join("; ")}` : ""}`,
    );
  const problem = bindingProblem(contract, allowed.primary, owner, call);
  if (problem === undefined) return;
  const { namespace, name } = owner;
  throw new TerminalError(
    `a run of ${controller} ${namespace}/${name} may not ${target}${call.name === undefined ? "" : ` ${call.namespace}/${call.name}`}: ${problem}`,
  );
}

function problemOf(row: ContractRow<string>, body: object): string | undefined {
  for (const pointer of row.require) {
    const value = valueAt(body, pointer);
    if (value === undefined || value === "") return `${row.what}: ${pointer} is missing`;
  }
  for (const [pointer, wanted] of Object.entries(row.values ?? {})) {
    if (valueAt(body, pointer) !== wanted) return `${row.what}: ${pointer} is not ${wanted}`;
  }
  const stray = strayPointer(body, allowedBy(row));
  return stray === undefined ? undefined : `${row.what}: ${stray} may not be written`;
}

const ALLOWED = new WeakMap<ContractRow<string>, ReadonlySet<string>>();

function allowedBy(row: ContractRow<string>): ReadonlySet<string> {
  const allowed = ALLOWED.get(row) ?? new Set(row.allow);
  ALLOWED.set(row, allowed);
  return allowed;
}
