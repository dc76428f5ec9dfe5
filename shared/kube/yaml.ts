export { repeatedKeys, parseYaml, parseYamlOrJson, parseYamlTexts } from "./yaml/yaml.ts";
