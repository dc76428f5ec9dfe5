export { repeatedKeys, parseYaml, parseYamlTexts } from "./yaml/yaml.ts";
