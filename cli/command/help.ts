/** The layout of `--help`: groups, readable defaults, details, examples and a link to the documentation. */
import { styleText } from "node:util";
import { Help } from "commander";
import type { Command, Option } from "commander";

/** Number of columns if standard output is not a terminal. */
const WIDTH = 80;
/** Lines of prose longer than this are hard to read. */
const WIDTH_MAX = 120;

/** If a term is longer than this, its description starts on the next line. */
const TERM_MAX = 30;

/** Configures the help of `program` and of the commands that are added to it later. */
export function configureHelp(program: Command): Command {
  return program
    .configureHelp({
      optionDescription,
      formatItem,
      padWidth: (command, help) => Math.min(Help.prototype.padWidth.call(help, command, help), TERM_MAX),
      styleTitle: (title) => bold(title),
      subcommandTerm: (command) => command.name(),
    })
    .configureOutput({ getOutHelpWidth: () => Math.min(process.stdout.columns || WIDTH, WIDTH_MAX) })
    .helpOption("-h, --help", "show this help")
    .showHelpAfterError("Run 'deltaloop --help' for the commands and 'deltaloop COMMAND --help' for its options.");
}

/** Describes an option, without its default if that is empty. */
function optionDescription(this: Help, option: Option): string {
  const { defaultValue } = option;
  const isEmpty = defaultValue === "" || (Array.isArray(defaultValue) && defaultValue.length === 0);
  return Help.prototype.optionDescription.call(this, isEmpty ? Object.create(option, { defaultValue: { value: undefined } }) : option);
}

function formatItem(this: Help, term: string, width: number, description: string, help: Help): string {
  const item = Help.prototype.formatItem.bind(this);
  return this.displayWidth(term) <= width || description === ""
    ? item(term, width, description, help)
    : `  ${term}\n${item("", width, description, help)}`;
}

interface Details {
  /** Paragraphs below the options. */
  readonly notes?: readonly string[];
  /** Command lines, without `deltaloop`. */
  readonly examples: readonly string[];
  /** The page that describes the command; by default, the reference of all commands. */
  readonly docs?: string;
}

/** Adds notes, examples and a link below the options. */
export function withDetails(
  command: Command,
  { notes = [], examples, docs = `docs/reference/cli.md#deltaloop-${command.name()}` }: Details,
): Command {
  return command.addHelpText("after", () => {
    const help = command.createHelp();
    const width = command.configureOutput().getOutHelpWidth?.() ?? WIDTH;
    return [
      ...notes.map((note) => `\n${help.boxWrap(note, width)}`),
      `\n${bold("Examples:")}`,
      ...examples.map((example) => `  deltaloop ${example}`),
      `\n${bold("Documentation:")} ${docs}`,
    ].join("\n");
  });
}

/** Formats text in bold. commander removes the codes if the output has no colours. */
function bold(text: string): string {
  return styleText("bold", text, { validateStream: false });
}
