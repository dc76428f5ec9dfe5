/** A message as far as a capture keeps it: the class of a known format, with its names and numbers. */
import type { EventEvidence } from "@deltaloop/replay/explain";

export function messageText(message: EventEvidence["message"]): string | undefined {
  if (message === undefined) return undefined;
  if (!("class" in message)) return "message of an unknown format (redacted)";
  const slots = Object.entries(message.slots).map(([name, value]) => `${name} ${value}`);
  return `${message.class}${slots.length > 0 ? `: ${slots.join(", ")}` : ""}`;
}
