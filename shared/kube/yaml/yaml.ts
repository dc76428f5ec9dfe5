/** YAML as Kubernetes programs read it: kubeconfigs, static pods, and the node's configuration files. */
import { parseAllDocuments, parse, stringify, visit, isPair, isScalar, YAMLParseError } from "yaml";
import type { Document, ScalarTag } from "yaml";

/**
 * Returns the value of the first document, as sigs.k8s.io/yaml reads it: `yes` is a boolean, `0644` and `0o10` are octal, `12:30`, `12e345`
 * and timestamps are strings. Of repeated keys the last one applies, later documents are ignored, and aliases are resolved up to 100 times.
 *
 * Source: Go sigs.k8s.io/yaml yaml.go YAMLToJSON.
 *
 * @throws {Error} with line and column; the message does not quote the text, which may hold a token
 */
export function parseYaml(withMark: string): unknown {
  const text = withMark.replace(/^\uFEFF/u, "");
  try {
    const [document] = parseAllDocuments(text, {
      schema: "failsafe",
      customTags: [PLAIN, ...TYPED, BINARY, TIMESTAMP],
      merge: true,
      uniqueKeys: false,
      prettyErrors: true,
      logLevel: "error", // suppresses warnings, which quote the text
    }) as readonly Document.Parsed[];
    if (document === undefined) return null;
    const [error] = document.errors;
    if (error !== undefined) throw error;
    const { explicit, version } = document.directives.yaml;
    if (explicit === true && version !== "1.1")
      throw new RefusedValueError(`the YAML directive names version ${version}, and only 1.1 is supported`);
    visit(document, {
      Pair: (_, { key }) => {
        if (!isScalar(key) || key.value === null) throw new RefusedValueError("a key that is null, a list or an object");
      },
      Scalar: (_, scalar) => {
        if (scalar.type === "QUOTE_DOUBLE" && scalar.range && YAML_1_2_ESCAPE.test(text.slice(scalar.range[0], scalar.range[1])))
          throw new RefusedValueError("an escape that YAML 1.1 does not have");
        // A block scalar at the end of the text has no final line break.
        if (scalar.type?.startsWith("BLOCK") === true && scalar.range?.[1] === text.length && !text.endsWith("\n"))
          scalar.value = String(scalar.value).replace(/\n$/, "");
      },
    });
    const value: unknown = document.toJS();
    throwIfNotJson(value);
    return value;
  } catch (error) {
    throw new Error(problemOf(error));
  }
}

/** A slash, or half of a UTF-16 surrogate pair, as JSON escapes them. */
const YAML_1_2_ESCAPE = /(?<!\\)(?:\\\\)*\\(?:\/|u[dD][89a-fA-F])/;

/**
 * The value of a file as the codecs of Kubernetes components read it: a text that begins with a brace is JSON, any other is YAML.
 *
 * Source: apimachinery/pkg/util/yaml/decoder.go ToJSON.
 *
 * @throws as parseYaml
 */
export function parseYamlOrJson(text: string): unknown {
  if (!/^\s*\{/.test(text) || text.startsWith("\uFEFF")) return parseYaml(text);
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    // V8's message may quote the text.
    const [place = ""] = /line \d+ column \d+/.exec(String(error)) ?? [];
    throw new Error(`not JSON, although it begins with a brace${place && `: ${place.replace(" column", ", column")}`}`);
  }
}

const MERGE = "<<";

/**
 * Returns the paths of keys that occur twice in one object of the first document: `authentication.webhook`. parseYaml must accept the text.
 */
export function repeatedKeys(text: string): readonly string[] {
  const [document] = parseAllDocuments(text.replace(/^\uFEFF/u, ""), {
    uniqueKeys: false,
    logLevel: "error",
  }) as readonly Document.Parsed[];
  const repeated: string[] = [];
  if (document === undefined) return repeated;
  visit(document, {
    Map(_, { items }, ancestors) {
      const above = ancestors.flatMap((node) => (isPair(node) ? [String(node.key)] : []));
      const keys = items.map(({ key }) => String(key)).filter((key) => key !== MERGE);
      for (const [i, key] of keys.entries())
        if (keys.indexOf(key) === i && keys.lastIndexOf(key) !== i) repeated.push([...above, key].join("."));
    },
  });
  return repeated;
}

/** Parses a file in which every value is a string: `off` is not a boolean and `0123` not a number. @throws as parseYaml */
export function parseYamlTexts(text: string): unknown {
  try {
    return parse(text, { schema: "failsafe", prettyErrors: true, logLevel: "error" }) as unknown;
  } catch (error) {
    throw new Error(problemOf(error));
  }
}

class RefusedValueError extends Error {}

/** Rejects infinities and NaN, which JSON cannot represent, as Go's encoder does. */
function throwIfNotJson(value: unknown): void {
  if (typeof value === "number" && !Number.isFinite(value)) throw new RefusedValueError("a number that JSON cannot represent");
  if (typeof value === "object" && value !== null) for (const inner of Object.values(value)) throwIfNotJson(inner);
}

function problemOf(error: unknown): string {
  if (error instanceof RefusedValueError) return `not YAML: ${error.message}`;
  if (!(error instanceof YAMLParseError)) return "not YAML: an alias has no anchor, or there are too many aliases";
  const [{ line, col } = { line: 0, col: 0 }] = error.linePos ?? [];
  return `not YAML: ${error.code.toLowerCase().replaceAll("_", " ")} at line ${line}, column ${col}`;
}

/** Formats plain data as YAML for users. Long values stay on one line. */
export function stringifyYaml(value: object): string {
  return stringify(value, { version: "1.1", lineWidth: 0 });
}

const WORDS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ...["", "~", "null", "Null", "NULL"].map((word) => [word, null] as const),
  ...["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"].map((word) => [word, true] as const),
  ...["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"].map((word) => [word, false] as const),
]);
const NOT_FINITE = /^(?:\.nan|\.NaN|\.NAN|[+-]?(?:\.inf|\.Inf|\.INF))$/;
const INTEGER = /^[+-]?(?:0|[1-9]\d*|0[0-7]+|0[oO][0-7]+|0[xX][\da-fA-F]+|0[bB][01]+)$/;
const FLOAT = /^[+-]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][+-]?\d+)?$/;
const POINTED = /^\.\d+(?:[eE][+-]?\d+)?$/;

/** The value of a plain scalar. Source: Go go.yaml.in/yaml/v2 resolve.go resolve. */
function valueOf(text: string): unknown {
  if (WORDS.has(text)) return WORDS.get(text);
  if (NOT_FINITE.test(text)) return Number.NaN;
  if (POINTED.test(text)) return finite(Number(text), text);
  if (!/^[+\d-]/.test(text)) return text;
  const digits = text.replaceAll("_", "");
  if (INTEGER.test(digits)) return integerOf(digits);
  return FLOAT.test(digits) ? finite(Number(digits), text) : text;
}

/** A float outside the range of a double stays text. */
function finite(value: number, text: string): number | string {
  return Number.isFinite(value) ? value : text;
}

function integerOf(digits: string): number {
  const [, sign = "", prefix = "", rest = ""] = /^([+-]?)(0[oO]?(?=\d)|0[xX]|0[bB])?(.*)$/.exec(digits) ?? [];
  const base = { "": 10, "0x": 16, "0b": 2 }[prefix.toLowerCase()] ?? 8;
  const value = base === 10 ? Number(rest) : Number.parseInt(rest, base);
  return sign === "-" && value !== 0 ? -value : value;
}

const PLAIN: ScalarTag = { tag: "tag:yaml.org,2002:plain", default: true, test: /^/, resolve: valueOf };

/** Explicit tags, whose values must match. */
const TYPED: readonly ScalarTag[] = (["null", "bool", "int", "float"] as const).map((name) => ({
  tag: `tag:yaml.org,2002:${name}`,
  resolve(text, onError) {
    const value = valueOf(text);
    if (fits(name, value)) return value;
    onError(`not of type ${name}`);
    return text;
  },
}));

function fits(name: "null" | "bool" | "int" | "float", value: unknown): boolean {
  switch (name) {
    case "null":
      return value === null;
    case "bool":
      return typeof value === "boolean";
    case "int":
      return Number.isInteger(value);
    case "float":
      return typeof value === "number";
  }
}

const BINARY: ScalarTag = {
  tag: "tag:yaml.org,2002:binary",
  resolve(text, onError) {
    const packed = text.replaceAll(/[\r\n]/g, "");
    if (packed.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(packed)) onError("not base64");
    return Buffer.from(packed, "base64").toString("utf8");
  },
};

const TIMESTAMP: ScalarTag = { tag: "tag:yaml.org,2002:timestamp", resolve: (text) => text };
