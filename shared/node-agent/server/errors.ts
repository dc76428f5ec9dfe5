/** The server cannot do what this machine or the runtime should let it do. The message is shown to people: it says what to do. */
export class NodeApiError extends Error {
  override readonly name = "NodeApiError";
}
