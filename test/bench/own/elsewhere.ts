/** A controller whose `where` no Website matches, so that each cached row has no content. */
import { defineController } from "../../../shared/sdk/index.ts";
import { Website } from "../../../examples/website/website.ts";

export const elsewhere = defineController({
  name: "elsewhere",
  for: Website,
  where: { labels: { "example.com/elsewhere": "*" } },
  sync: () => undefined,
});
