/**
 * The messages of runtime.proto, ready to be written and read.
 *
 * Contract with the build (infra/build), the same as in shared/store/redis/scripts/load.ts: a bundle has no .proto file
 * beside it, so the expression of exactly this form,
 *
 *     readFileSync(new URL("./<path>.proto", import.meta.url), "utf8")
 *
 * is to be replaced by the file's content as a string literal. Run unbuilt, it reads the file. No other module reads it.
 */
import { readFileSync } from "node:fs";

import protobuf from "protobufjs";

const text = readFileSync(new URL("./runtime.proto", import.meta.url), "utf8");
const { root } = protobuf.parse(text);

/**
 * Fields in camelCase; every scalar, list and map present, a message only if it came; 64-bit numbers as doubles (times lose
 * less than a microsecond, sizes nothing); an enum's unknown value stays a number, for decode.ts to judge.
 */
const READ = { longs: Number, enums: String, defaults: true } as const;

export interface Method<T = object> {
  /** As gRPC calls it: `/<package>.<service>/<method>`. */
  readonly path: string;
  encode(request: object): Uint8Array;
  decode(answer: Buffer): T;
}

/** A message within others, as an answer would have it. @throws {Error} when runtime.proto has no such message */
export function message(name: string): (bytes: Buffer) => object {
  const type = root.lookupType(`runtime.v1.${name}`);
  return (bytes) => type.toObject(type.decode(bytes), READ);
}

const methods = new Map<string, Method>();

/** @throws {Error} when runtime.proto has no such method */
export function method(service: "RuntimeService" | "ImageService", name: string): Method {
  const path = `/runtime.v1.${service}/${name}`;
  const known = methods.get(path) ?? load(path, root.lookupService(`runtime.v1.${service}`).methods[name]);
  methods.set(path, known);
  return known;
}

function load(path: string, found: protobuf.Method | undefined): Method {
  found?.resolve();
  const { resolvedRequestType: request, resolvedResponseType: answer } = found ?? {};
  if (!request || !answer) throw new Error(`runtime.proto has no ${path}`);
  return {
    path,
    encode: (message) => request.encode(request.fromObject(message)).finish(),
    decode: (bytes) => answer.toObject(answer.decode(bytes), READ),
  };
}
