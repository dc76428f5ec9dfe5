/** YAML as Kubernetes' own programs read it, in files that people write: kubeconfigs and static pods. */
import { parse, stringify, YAMLParseError } from "yaml";

/**
 * YAML 1.1: `yes` and `0644` are what they are to a kubelet, a boolean and an octal number. JSON is YAML. A timestamp stays the text that
 * it is; of a key that stands twice the last one counts; aliases are resolved up to 100 times.
 *
 * Source: apimachinery pkg/util/yaml/decoder.go ToJSON.
 *
 * @throws {Error} saying what is wrong, by line and column; nothing of the text itself, which may be a token or a value of an environment
 */
export function parseYaml(text: string): unknown {
  try {
    return parse(text, {
      version: "1.1",
      uniqueKeys: false,
      prettyErrors: true,
      logLevel: "error", // a warning quotes the text, too
      customTags: (tags) => tags.filter((tag) => typeof tag === "string" || tag.tag !== "tag:yaml.org,2002:timestamp"),
    }) as unknown;
  } catch (error) {
    throw new Error(problemOf(error));
  }
}

/** Of a file in which every value is the text that it is: `off` is no boolean and `0123` no number. @throws as parseYaml */
export function parseYamlTexts(text: string): unknown {
  try {
    return parse(text, { schema: "failsafe", prettyErrors: true, logLevel: "error" }) as unknown;
  } catch (error) {
    throw new Error(problemOf(error));
  }
}

function problemOf(error: unknown): string {
  if (!(error instanceof YAMLParseError)) return "not YAML: an alias has no anchor, or there are too many";
  const [{ line, col } = { line: 0, col: 0 }] = error.linePos ?? [];
  return `not YAML: ${error.code.toLowerCase().replaceAll("_", " ")} at line ${line}, column ${col}`;
}

/** Plain data, for people to read. Long values stay on one line. */
export function stringifyYaml(value: object): string {
  return stringify(value, { version: "1.1", lineWidth: 0 });
}
