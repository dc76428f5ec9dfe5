/** YAML as Kubernetes' own programs read it, in files that people write: kubeconfigs and static pods. */
import { parse } from "yaml";

/**
 * YAML 1.1: `yes` and `0644` are what they are to a kubelet, a boolean and an octal number. JSON is YAML. A timestamp stays the text that
 * it is; of a key that stands twice the last one counts; aliases are resolved up to 100 times.
 *
 * Source: apimachinery pkg/util/yaml/decoder.go ToJSON.
 *
 * @throws {Error} naming line and column
 */
export function parseYaml(text: string): unknown {
  return parse(text, {
    version: "1.1",
    uniqueKeys: false,
    prettyErrors: true,
    customTags: (tags) => tags.filter((tag) => typeof tag === "string" || tag.tag !== "tag:yaml.org,2002:timestamp"),
  }) as unknown;
}
