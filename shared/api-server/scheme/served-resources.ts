/** The resources of one server: the built-in ones and those of its CustomResourceDefinitions. */
import { apiVersionOf, RESOURCE_DEFINITIONS, type ResourceDefinition } from "./resource-definitions.ts";

interface Lookup {
  readonly byPlace: ReadonlyMap<string, ResourceDefinition>;
  readonly byKind: ReadonlyMap<string, ResourceDefinition>;
  readonly byId: ReadonlyMap<string, ResourceDefinition>;
}

const BUILT_IN = lookupOf(RESOURCE_DEFINITIONS);

export class ServedResources {
  #custom: readonly ResourceDefinition[] = [];
  #lookup: Lookup = BUILT_IN;

  /** All resources, in discovery order. A custom resource has one entry per version, including versions that are not served. */
  get all(): readonly ResourceDefinition[] {
    return [...RESOURCE_DEFINITIONS, ...this.#custom];
  }

  /** The served resources, in discovery order. */
  get served(): readonly ResourceDefinition[] {
    return this.all.filter(isServed);
  }

  /** Each resource once, in the version in which it is stored. */
  get stored(): Iterable<ResourceDefinition> {
    return this.#lookup.byId.values();
  }

  /** Replaces all custom resources by `definitions`. */
  setCustom(definitions: readonly ResourceDefinition[]): void {
    this.#custom = definitions;
    this.#lookup = definitions.length === 0 ? BUILT_IN : lookupOf(this.all);
  }

  find(group: string, version: string, resource: string): ResourceDefinition | undefined {
    return this.#lookup.byPlace.get(`${group}/${version}/${resource}`);
  }

  findKind(apiVersion: string, kind: string): ResourceDefinition | undefined {
    return this.#lookup.byKind.get(`${apiVersion}/${kind}`);
  }

  /** A resource in the version in which it is stored; undefined if it is unknown. */
  findById(id: string): ResourceDefinition | undefined {
    return this.#lookup.byId.get(id);
  }

  /** @throws {RangeError} for an unknown resource, which is a bug in the server */
  byId(id: string): ResourceDefinition {
    const found = this.findById(id);
    if (found === undefined) throw new RangeError(`no resource "${id}"`);
    return found;
  }
}

function isServed({ custom }: ResourceDefinition): boolean {
  return custom?.isServed !== false;
}

function lookupOf(definitions: readonly ResourceDefinition[]): Lookup {
  const served = definitions.filter(isServed);
  const stored = definitions.filter(({ custom, version }) => custom === undefined || custom.storageVersion === version);
  return {
    byPlace: new Map(served.map((definition) => [`${definition.group}/${definition.version}/${definition.resource}`, definition])),
    byKind: new Map(served.map((definition) => [`${apiVersionOf(definition)}/${definition.kind}`, definition])),
    byId: new Map(stored.map((definition) => [definition.id, definition])),
  };
}
