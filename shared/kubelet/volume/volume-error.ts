/**
 * A volume cannot be filled yet: an object, a key or a field that it names is not there. Normal while somebody still has to make
 * it; the pod waits and is tried again. The message is shown to users in the FailedMount event; it holds names, never values.
 */
export class VolumeError extends Error {
  override readonly name = "VolumeError";
}
