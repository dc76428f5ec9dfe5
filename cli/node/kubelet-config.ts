/**
 * `--config`: a KubeletConfiguration, whose fields map to options of `deltaloop node` (node-agent §14.7). The command line takes
 * precedence.
 *
 * Source: cmd/kubelet/app/server.go NewKubeletCommand, loadConfigFile; pkg/kubelet/kubeletconfig/configfiles/configfiles.go.
 */
import type { Command, Option } from "commander";
import { readFile } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { messageOf } from "@deltaloop/kube/objects";
import { decodeKubeletConfig } from "./decode-kubelet-config.ts";
import type { DecodedKubeletConfig } from "./decode-kubelet-config.ts";
import { FIELDS } from "./kubelet-config-fields.ts";
import type { Field, Fields, Form } from "./kubelet-config-fields.ts";
import { isObject, parseGoDuration, UsageError } from "@deltaloop/base";

/** commander's name for the source of a value. */
const FROM_FILE = "config";
/**
 * Paths in the file that are relative to the file. Source: configfiles.go resolveRelativePaths, pkg/kubelet/apis/config/helpers.go
 * KubeletConfigurationPathRefs.
 */
const PATHS = new Set(["--manifests", "--tls-cert-file", "--tls-private-key-file", "--client-ca-file", "--resolv-conf", "--pod-logs-dir"]);

/**
 * Sets the options of `command` that the file names and the command line does not.
 *
 * @returns the fields that are ignored, as the kubelet does: unknown fields, and all but the last occurrence of repeated fields
 * @throws {UsageError} with a line for each field that is unsupported or has an invalid value
 */
export async function applyKubeletConfig(command: Command, path: string): Promise<readonly string[]> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw new UsageError(`--config ${path} cannot be read: ${messageOf(error)}`);
  });
  const { object, mistakes, ignored, unknown } = read(text, path);
  for (const { field, option, texts } of settingsIn(object, FIELDS, "", { mistakes, unknown })) {
    const known = command.options.find(({ long }) => long === option);
    if (known === undefined) throw new Error(`${field} maps to ${option}, which does not exist`);
    if (command.getOptionValueSource(known.attributeName()) === "cli") continue;
    const from = PATHS.has(option) ? texts.map((one) => absolute(path, one)) : texts;
    try {
      command.setOptionValueWithSource(known.attributeName(), valueOf(known, from), FROM_FILE);
    } catch (error) {
      mistakes.push(`${field}: ${messageOf(error)}`);
    }
  }
  if (mistakes.length > 0) throw new UsageError(mistakes.map((mistake) => `--config ${path}: ${mistake}`).join("\n"));
  return ignored;
}

function read(text: string, path: string): DecodedKubeletConfig {
  try {
    return decodeKubeletConfig(text);
  } catch (error) {
    throw new UsageError(`--config ${path}: ${messageOf(error)}`);
  }
}

interface Setting {
  readonly field: string;
  readonly option: string;
  /** The values as on the command line, one per occurrence of the option. */
  readonly texts: readonly string[];
}

interface Findings {
  readonly mistakes: string[];
  readonly unknown: readonly string[];
}

function settingsIn(object: Readonly<Record<string, unknown>>, fields: Fields, above: string, findings: Findings): readonly Setting[] {
  return Object.entries(object).flatMap(([name, value]) => {
    const path = `${above}${name}`;
    if (findings.unknown.includes(path)) return [];
    const field: Field = (Object.hasOwn(fields, name) ? fields[name] : undefined) ?? { kind: "unsupported" };
    if (field.kind === "fields" && isObject(value)) return settingsIn(value, field.fields, `${path}.`, findings);
    if (saysNothing(field, value)) return [];
    if (field.kind === "option") return [{ field: path, option: field.option, texts: textsOf(value, field.form) }];
    const mistake = mistakeOf(path, field, value);
    if (mistake !== undefined) findings.mistakes.push(mistake);
    return [];
  });
}

function mistakeOf(path: string, field: Field, value: unknown): string | undefined {
  if (field.kind !== "fixed") return `${path} is not supported by this agent: remove it`;
  if (field.values.some((one) => isSame(one, value))) return undefined;
  return `${path}: this agent supports only ${field.values.map((one) => JSON.stringify(one)).join(" or ")}: set this value, or remove the field`;
}

/** Compares values; a duration has several notations. */
function isSame(one: unknown, value: unknown): boolean {
  if (one === value) return true;
  return (
    typeof one === "string" &&
    typeof value === "string" &&
    parseGoDuration(one) !== undefined &&
    parseGoDuration(one) === parseGoDuration(value)
  );
}

/**
 * Whether the field counts as absent, which applies to Go's zero value of a non-pointer field and to an empty value of an unsupported
 * field.
 */
function saysNothing(field: Field, value: unknown): boolean {
  if (value === null) return true;
  if (field.kind === "unsupported" && value === false) return true;
  return !("zeroCounts" in field && field.zeroCounts === true) && isEmpty(value);
}

/** Whether the value is a zero value other than `false`, or an object of such values. */
function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === "" || value === 0 || value === "0") return true;
  if (typeof value === "string") return parseGoDuration(value) === 0;
  return typeof value === "object" && Object.values(value).every((one) => one === false || isEmpty(one));
}

/** `value` must have the field's type. */
function textsOf(value: unknown, form: Form): readonly string[] {
  if (typeof form === "object")
    return [
      entriesOf(value)
        .map(([key, one]) => `${key}${form.map}${String(one)}`)
        .join(),
    ];
  switch (form) {
    case "text":
    case "number":
    case "boolean":
      return [String(value)];
    case "duration":
      return [`${(parseGoDuration(String(value)) ?? 0) / 1000}s`];
    case "list":
      return [listOf(value).join(",")];
    case "repeated":
      return listOf(value).map(String);
    case "headers":
      return entriesOf(value).flatMap(([name, values]) => listOf(values).map((one) => `${name}:${String(one)}`));
    case "taints":
      return [
        listOf(value)
          .filter(isObject)
          .map(({ key, value: of, effect }) => `${String(key)}${isEmpty(of) ? "" : `=${String(of)}`}:${String(effect)}`)
          .join(","),
      ];
    case "periods":
      return [
        listOf(value)
          .filter(isObject)
          .map(({ priority = 0, shutdownGracePeriodSeconds: seconds = 0 }) => `${String(priority)}=${String(seconds)}`)
          .join(","),
      ];
    default:
      return form satisfies never;
  }
}

function entriesOf(value: unknown): readonly (readonly [string, unknown])[] {
  return isObject(value) ? Object.entries(value) : [];
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The value as parsed from the command line. @throws the option's error for an invalid value */
function valueOf(option: Option, texts: readonly string[]): unknown {
  if (!option.required && !option.optional) return texts[0] === "true" ? true : undefined;
  const { parseArg } = option;
  if (parseArg === undefined) return texts[0];
  return texts.reduce<unknown>(
    (before, text) => parseArg(text, before),
    Array.isArray(option.defaultValue) ? option.defaultValue : undefined,
  );
}

function absolute(file: string, path: string): string {
  return path === "" || isAbsolute(path) ? path : join(dirname(file), path);
}
