/**
 * The messages of runtime.proto, ready to be written and read.
 *
 * Contract with the build (infra/build), the same as in shared/adapters/redis/scripts/load.ts: a bundle has no .proto file
 * beside it, so the expression of exactly this form,
 *
 *     readFileSync(new URL("./<path>.proto", import.meta.url), "utf8")
 *
 * is to be replaced by the file's content as a string literal. That is why the text is parsed here and not by proto-loader,
 * which wants a path. Run unbuilt, it reads the file. No other module reads it.
 */
import { readFileSync } from "node:fs";

import { fromJSON } from "@grpc/proto-loader";
import type { MethodDefinition, ServiceDefinition } from "@grpc/proto-loader";
import protobuf from "protobufjs";

const text = readFileSync(new URL("./runtime.proto", import.meta.url), "utf8");

/**
 * Fields in camelCase; every scalar, list and map present, a message only if it came; 64-bit numbers as doubles (times lose
 * less than a microsecond, sizes nothing); an enum's unknown value stays a number, for decode.ts to judge.
 */
const definition = fromJSON(protobuf.parse(text).root.toJSON(), { longs: Number, enums: String, defaults: true });

export type Method = MethodDefinition<object, object>;

/** @throws {Error} when runtime.proto has no such method */
export function method(service: "RuntimeService" | "ImageService", name: string): Method {
  const methods = definition[`runtime.v1.${service}`] as ServiceDefinition | undefined; // the package's other entries are messages
  const found = methods?.[name];
  if (!found) throw new Error(`runtime.proto has no ${service}.${name}`);
  return found;
}
