export { runApiSource } from "./sources/api-source.ts";
export { runManifestSource } from "./sources/manifest-source.ts";
export { runUrlSource } from "./sources/url-source.ts";
