/** Writes types in the notation of upstream's parser. */
import type { Atom, ListType, MapType, TypeRef } from "../../../shared/api-server/apply/type-schema.ts";

export function schemaText(types: Iterable<readonly [string, Atom]>): string {
  return JSON.stringify({ types: Array.from(types, ([name, atom]) => ({ name, ...atomFields(atom) })) });
}

function atomFields({ scalar, list, map }: Atom): object {
  return { ...(scalar && { scalar }), ...(list && { list: listFields(list) }), ...(map && { map: mapFields(map) }) };
}

function refFields(ref: TypeRef): object {
  if (!("name" in ref)) return atomFields(ref);
  const { name, isAtomic } = ref;
  return { namedType: name, ...(isAtomic !== undefined && { elementRelationship: isAtomic ? "atomic" : "separable" }) };
}

function listFields({ element, isAtomic, keys }: ListType): object {
  return { elementType: refFields(element), elementRelationship: isAtomic ? "atomic" : "associative", ...(keys.length > 0 && { keys }) };
}

function mapFields({ fields, element, isAtomic }: MapType): object {
  return {
    fields: Array.from(fields, ([name, field]) => ({
      name,
      type: refFields(field.type),
      ...(field.default !== undefined && { default: field.default }),
    })),
    ...(element && { elementType: refFields(element) }),
    ...(isAtomic && { elementRelationship: "atomic" }),
  };
}
