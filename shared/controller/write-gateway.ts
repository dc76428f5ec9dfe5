/** The write gateway (contract in gateway.ts): a contract in front of a KubeWriter. */
import type { Controller } from "../api/resources.ts";
import type { KubeObject } from "../api/wire.ts";
import { TerminalError } from "../ports/errors.ts";
import type { CreateRequest, DeleteRequest, KubeWriter, PatchRequest } from "../ports/kube.ts";
import { CONTRACT } from "./contract.ts";
import type { ContractRow } from "./contract.ts";
import type { Answer, WriteGateway } from "./gateway.ts";
import { strayPointer, valueAt } from "./json-pointer.ts";

export function createWriteGateway(writer: KubeWriter, controller: Controller, mode: WriteGateway["mode"]): WriteGateway {
  const rows = CONTRACT[controller];
  const send = async (request: Asked, call: () => Promise<KubeObject | undefined>): Promise<Answer> => {
    admit(controller, rows, request);
    if (mode === "shadow") return { kind: "notSent" };
    return { kind: "stored", object: await call() };
  };
  return {
    mode,
    create: (request: CreateRequest) => send({ verb: "create", ...request }, () => writer.create(request)),
    patch: (request: PatchRequest) => send({ verb: "patch", ...request }, () => writer.patch(request)),
    delete: (request: DeleteRequest) => send({ verb: "delete", ...request, body: request.preconditions }, () => writer.delete(request)),
  };
}

interface Asked extends Pick<ContractRow, "verb" | "resource" | "subresource" | "type"> {
  readonly body: object;
}

/** @throws {TerminalError} naming the first broken rule; paths and names only, never a value. */
function admit(controller: Controller, rows: readonly ContractRow[], request: Asked): void {
  const { verb, resource, subresource, type, body } = request;
  const candidates = rows.filter(
    (row) => row.verb === verb && row.resource === resource && row.subresource === subresource && row.type === type,
  );
  const problems = candidates.map((row) => problemOf(row, body));
  if (problems.some((problem) => problem === undefined)) return;
  const target = `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`}${type === undefined ? "" : ` (${type})`}`;
  throw new TerminalError(`the contract of ${controller} does not allow ${target}${problems.length > 0 ? `: ${problems.join("; ")}` : ""}`);
}

function problemOf(row: ContractRow, body: object): string | undefined {
  for (const pointer of row.require) {
    const value = valueAt(body, pointer);
    if (value === undefined || value === "") return `${row.what}: ${pointer} is missing`;
  }
  for (const [pointer, wanted] of Object.entries(row.values ?? {})) {
    if (valueAt(body, pointer) !== wanted) return `${row.what}: ${pointer} is not ${wanted}`;
  }
  const stray = strayPointer(body, new Set(row.allow));
  return stray === undefined ? undefined : `${row.what}: ${stray} is not its to write`;
}
