/**
 * `--config`: a KubeletConfiguration, whose fields stand for options of `deltaloop node` (node-agent §14.7). What was given on the command
 * line goes before it.
 *
 * Source: cmd/kubelet/app/server.go NewKubeletCommand, loadConfigFile; pkg/kubelet/kubeletconfig/configfiles/configfiles.go.
 */
import type { Command, Option } from "commander";
import { readFile } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { parseYaml } from "@deltaloop/kube/yaml";
import { messageOf } from "@deltaloop/kube/objects";
import { FIELDS } from "./kubelet-config-fields.ts";
import type { Field, Fields, Form } from "./kubelet-config-fields.ts";
import { parseGoDuration, UsageError } from "@deltaloop/base";

/** As commander names where a value is from. */
const FROM_FILE = "config";
/** Relative paths in the file are relative to it. Source: configfiles.go resolveRelativePaths, pkg/kubelet/apis/config/helpers.go KubeletConfigurationPathRefs. */
const PATHS = new Set(["--manifests", "--tls-cert-file", "--tls-private-key-file", "--client-ca-file", "--resolv-conf", "--pod-logs-dir"]);

/**
 * Sets the options of `command` that the file names and the command line does not.
 *
 * @throws {UsageError} with a line for each field that is unknown, not supported, or has a value that cannot be
 */
export async function applyKubeletConfig(command: Command, path: string): Promise<void> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw new UsageError(`--config ${path} cannot be read: ${messageOf(error)}`);
  });
  let content: unknown;
  try {
    content = parseYaml(text);
  } catch (error) {
    throw new UsageError(`--config ${path}: ${messageOf(error)}`);
  }
  if (!isObject(content) || content["kind"] === undefined || content["apiVersion"] === undefined)
    throw new UsageError(`--config ${path} is no KubeletConfiguration: it needs apiVersion kubelet.config.k8s.io/v1beta1 and that kind`);
  const mistakes: string[] = [];
  for (const { field, option, texts } of settingsIn(content, FIELDS, "", mistakes)) {
    const known = command.options.find(({ long }) => long === option);
    if (known === undefined) throw new Error(`${field} stands for ${option}, which there is not`);
    if (command.getOptionValueSource(known.attributeName()) === "cli") continue;
    const from = PATHS.has(option) ? texts.map((one) => absolute(path, one)) : texts;
    try {
      command.setOptionValueWithSource(known.attributeName(), valueOf(known, from), FROM_FILE);
    } catch (error) {
      mistakes.push(`${field}: ${messageOf(error)}`);
    }
  }
  if (mistakes.length > 0) throw new UsageError(mistakes.map((mistake) => `--config ${path}: ${mistake}`).join("\n"));
}

interface Setting {
  readonly field: string;
  readonly option: string;
  /** As they would stand on the command line, one for each time that the option would. */
  readonly texts: readonly string[];
}

function settingsIn(object: Readonly<Record<string, unknown>>, fields: Fields, above: string, mistakes: string[]): readonly Setting[] {
  return Object.entries(object).flatMap(([name, value]) => {
    const path = `${above}${name}`;
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined) {
      mistakes.push(`unknown field "${path}": take it out, or look at its spelling`);
      return [];
    }
    if (field.kind === "fields" && isObject(value)) return settingsIn(value, field.fields, `${path}.`, mistakes);
    if (saysNothing(field, value)) return [];
    if (field.kind === "option") {
      const texts = textsOf(value, field.form);
      if (texts !== undefined) return [{ field: path, option: field.option, texts }];
    }
    const mistake = mistakeOf(path, field, value);
    if (mistake !== undefined) mistakes.push(mistake);
    return [];
  });
}

function mistakeOf(path: string, field: Field, value: unknown): string | undefined {
  switch (field.kind) {
    case "unsupported":
      return `${path} is not supported by this agent: take it out`;
    case "fixed":
      if (field.values.some((one) => isSame(one, value))) return undefined;
      return `${path}: this agent keeps to ${field.values.map((one) => JSON.stringify(one)).join(" or ")}: say that, or take it out`;
    case "fields":
      return `${path} is no object`;
    case "option":
      return `${path} is no ${typeof field.form === "string" ? field.form : "map of texts"}`;
    default:
      return field satisfies never;
  }
}

/** A duration may be written in many ways. */
function isSame(one: unknown, value: unknown): boolean {
  if (one === value) return true;
  return (
    typeof one === "string" &&
    typeof value === "string" &&
    parseGoDuration(one) !== undefined &&
    parseGoDuration(one) === parseGoDuration(value)
  );
}

/** Go's zero value of a field that is no pointer is the field left out; of what is not supported nothing is asked with it. */
function saysNothing(field: Field, value: unknown): boolean {
  if (value === null) return true;
  if (field.kind === "unsupported" && value === false) return true;
  return !("zeroCounts" in field && field.zeroCounts === true) && isEmpty(value);
}

/** As zero values are written but for `false`, and objects of nothing else. */
function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === "" || value === 0 || value === "0") return true;
  if (typeof value === "string") return parseGoDuration(value) === 0;
  return typeof value === "object" && Object.values(value).every((one) => one === false || isEmpty(one));
}

/** `undefined`: it has another form. */
function textsOf(value: unknown, form: Form): readonly string[] | undefined {
  if (typeof form === "object") {
    if (!isObject(value) || !Object.values(value).every(isScalar)) return undefined;
    return [
      Object.entries(value)
        .map(([key, one]) => `${key}${form.map}${String(one)}`)
        .join(),
    ];
  }
  switch (form) {
    case "text":
      return typeof value === "string" ? [value] : undefined;
    case "number":
      return typeof value === "number" ? [String(value)] : undefined;
    case "boolean":
      return typeof value === "boolean" ? [String(value)] : undefined;
    case "duration": {
      const ms = typeof value === "string" ? parseGoDuration(value) : undefined;
      return ms === undefined ? undefined : [`${ms / 1000}s`];
    }
    case "list":
      return isTexts(value) ? [value.join(",")] : undefined;
    case "repeated":
      return isTexts(value) ? value : undefined;
    case "headers":
      if (!isObject(value) || !Object.values(value).every(isTexts)) return undefined;
      return Object.entries(value).flatMap(([name, values]) => (values as readonly string[]).map((one) => `${name}:${one}`)); // every one is, as just seen
    case "taints":
      if (!Array.isArray(value) || !value.every(isObject)) return undefined;
      return [
        value.map(({ key, value: of, effect }) => `${String(key)}${isEmpty(of) ? "" : `=${String(of)}`}:${String(effect)}`).join(","),
      ];
    case "periods":
      if (!Array.isArray(value) || !value.every(isObject)) return undefined;
      return [value.map(({ priority = 0, shutdownGracePeriodSeconds: seconds = 0 }) => `${String(priority)}=${String(seconds)}`).join(",")];
    default:
      return form satisfies never;
  }
}

/** What the command line would have made of it. @throws what the option says of a wrong one */
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

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isScalar(value: unknown): boolean {
  return typeof value === "string" || typeof value === "number";
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}
