export { parseYaml, parseYamlTexts } from "./yaml/yaml.ts";
