/** Go's structs of the served kinds. */
import { parseGoTypes } from "@deltaloop/kube/pod-template";
import { OWN_RELEASE } from "@deltaloop/kube/releases";
import { API_TYPES } from "./api-types.ts";

/** The part of a custom resource that has Go types. */
export const PARTIAL = "PartialObjectMetadata";

/** A struct by its name. @throws {RangeError} */
export const goTypeOf = parseGoTypes([...OWN_RELEASE.types, API_TYPES, `${PARTIAL}{TypeMeta^:~ ObjectMeta=metadata:~}`]);
