/** Unpacks the data of the page and shows it. */
import { render } from "preact";
import type { TimelineInput } from "../input.ts";
import { App } from "./app.tsx";
import { modelOf } from "./model.ts";

async function unpacked(base64: string): Promise<TimelineInput> {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as TimelineInput; // written by the same version
}

async function start(root: Element): Promise<void> {
  try {
    const input = await unpacked(document.getElementById("data")?.textContent ?? "");
    document.title = `${input.source} – deltaloop timeline`;
    root.replaceChildren();
    render(<App model={modelOf(input)} />, root);
  } catch (error) {
    root.textContent = `This page cannot show its data (${String(error)}). It needs a browser of 2023 or later; write the page again if the file is cut off.`;
  }
}

const root = document.getElementById("app");
if (root !== null) void start(root);
