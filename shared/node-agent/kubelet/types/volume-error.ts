/**
 * A referenced object, key or field is missing. This is normal until it is created; the pod retries. Shown in the FailedMount event;
 * contains names, never values.
 */
export class VolumeError extends Error {
  override readonly name = "VolumeError";
}
