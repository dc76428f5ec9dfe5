/**
 * Encoders and decoders for the messages of runtime.proto.
 *
 * Contract with the build (infra/build), as in shared/store/redis/scripts/load.ts: the build replaces every expression of exactly this
 * form,
 *
 *     readFileSync(new URL("./<path>.proto", import.meta.url), "utf8")
 *
 * with the content of the file as a string literal, because a bundle has no .proto file next to it.
 */
import { readFileSync } from "node:fs";

import protobuf from "protobufjs";

const text = readFileSync(new URL("./runtime.proto", import.meta.url), "utf8");
const { root } = protobuf.parse(text);

/**
 * Fields in camelCase; scalars, lists and maps always present, messages only if sent. 64-bit integers become doubles: a time loses less
 * than a microsecond, and a size loses nothing. An unknown enum value stays a number for decode.ts.
 */
const READ = { longs: Number, enums: String, defaults: true } as const;

export interface Method<T = object> {
  /** The gRPC path, `/<package>.<service>/<method>`. */
  readonly path: string;
  encode(request: object): Uint8Array;
  decode(answer: Buffer): T;
}

/** Returns a decoder for a nested message. @throws {Error} if runtime.proto has no such message */
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
