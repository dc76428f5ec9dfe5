/** The live timeline page, as a browser reads it. */
import type { Running } from "./e2e.ts";

/** The first data that a newly connected page receives: a TimelineInput as JSON. @param command runs with `--open` */
export async function liveTimeline(command: Running): Promise<string> {
  const [url = ""] = /http:\S+/.exec(await command.line("Timeline: ")) ?? [];
  const entry = await fetch(url, { redirect: "manual" });
  const [cookie = ""] = entry.headers.getSetCookie().map((each) => each.split(";")[0] ?? "");
  const ending = new AbortController();
  const events = await fetch(new URL(`${entry.headers.get("location")}events`, url), { headers: { cookie }, signal: ending.signal });
  let text = "";
  for await (const chunk of events.body ?? []) {
    text += Buffer.from(chunk).toString();
    if (text.includes("event: whole") && text.endsWith("\n\n")) break;
  }
  ending.abort();
  return text;
}
