/** Shows the data of the page, or of the server that sent it. */
import { render } from "preact";
import { App } from "./app.tsx";
import { follow } from "./live.ts";
import { modelOf } from "./model.ts";
import { unpacked } from "./unpack.ts";

async function start(root: Element): Promise<void> {
  const data = document.getElementById("data")?.textContent;
  if (data === undefined)
    return follow((input, connection) => {
      document.title = `${input.source} – deltaloop timeline`;
      if (root.firstElementChild?.className === "loading") root.replaceChildren();
      render(<App model={modelOf(input)} connection={connection} />, root);
    });
  try {
    const input = await unpacked(data);
    document.title = `${input.source} – deltaloop timeline`;
    root.replaceChildren();
    render(<App model={modelOf(input)} />, root);
  } catch (error) {
    root.textContent = `This page cannot show its data (${String(error)}). It needs a browser of 2023 or later; write the page again if the file is truncated.`;
  }
}

const root = document.getElementById("app");
if (root !== null) void start(root);
