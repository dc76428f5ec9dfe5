/** `deltaloop completion bash|zsh|fish`: a shell's completion script, from the tree of commands and options. */
import { Argument } from "commander";
import type { Command, Option } from "commander";
import { withDetails } from "./help.ts";

const SHELLS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

export function registerCompletion(program: Command): void {
  withDetails(
    program
      .command("completion")
      .description("Prints a script that completes commands and options in a shell.")
      .addArgument(new Argument("<shell>", "shell to complete in").choices(Object.keys(SHELLS)))
      .action((shell: keyof typeof SHELLS) => void process.stdout.write(SHELLS[shell](commandsOf(program)))),
    {
      examples: [
        "completion bash > /etc/bash_completion.d/deltaloop",
        'completion zsh > "${fpath[1]}/_deltaloop"',
        "completion fish > ~/.config/fish/completions/deltaloop.fish",
      ],
    },
  );
}

interface Completed {
  /** `rotate tokens`; empty for the program. */
  readonly path: string;
  readonly commands: readonly Command[];
  readonly options: readonly Option[];
  /** Values of an argument with a fixed set of values. */
  readonly values: readonly string[];
}

function commandsOf(command: Command, path = ""): readonly Completed[] {
  const help = command.createHelp();
  const commands = help.visibleCommands(command);
  const values = command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices);
  const below = command.commands.filter((one) => commands.includes(one));
  return [
    { path, commands, options: help.visibleOptions(command), values },
    ...below.flatMap((one) => commandsOf(one, `${path} ${one.name()}`.trim())),
  ];
}

/** Completes the words of the longest command path at the start of the line, or file names after an option with a value. */
function bashScript(all: readonly Completed[]): string {
  const cases = all.map(({ path, commands, options, values }) => {
    const words = [...commands.map((command) => command.name()), ...values, ...options.flatMap(flagsOf)];
    return `    ${JSON.stringify(path)}) words=${JSON.stringify(words.join(" "))} ;;\n`;
  });
  const choices = all.flatMap(({ path, options }) =>
    options.flatMap((option) =>
      option.argChoices
        ? flagsOf(option).map(
            (flag) => `    ${JSON.stringify(`${path} ${flag}`)}) words=${JSON.stringify(option.argChoices?.join(" "))} ;;\n`,
          )
        : [],
    ),
  );
  const nested = all.filter(({ path, commands }) => path !== "" && commands.length > 0).map(({ path }) => path);
  return `# bash completion of deltaloop; load it with: source <(deltaloop completion bash)
_deltaloop() {
  local path="" words="" current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD - 1]}"
  if ((COMP_CWORD > 1)); then path="\${COMP_WORDS[1]}"; fi
  if ((COMP_CWORD > 2)) && [[ " ${nested.join(" ")} " == *" $path "* ]]; then path="$path \${COMP_WORDS[2]}"; fi
  case "$path" in
${cases.join("")}  esac
  case "$path $previous" in
${choices.join("")}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o bashdefault -o default -F _deltaloop deltaloop
`;
}

/** zsh runs bash's function through bashcompinit. */
function zshScript(all: readonly Completed[]): string {
  return `#compdef deltaloop\nautoload -U +X bashcompinit && bashcompinit\n${bashScript(all)}`;
}

function fishScript(all: readonly Completed[]): string {
  const quoted = (text: string): string => `'${text.replaceAll(/[\\']/g, String.raw`\$&`)}'`;
  return all
    .flatMap(({ path, commands, options, values }) => {
      const at =
        path === ""
          ? "__fish_use_subcommand"
          : path
              .split(" ")
              .map((name) => `__fish_seen_subcommand_from ${name}`)
              .join("; and ");
      const line = `complete -c deltaloop -n ${quoted(at)}`;
      return [
        ...commands.map((command) => `${line} -f -a ${command.name()} -d ${quoted(command.summary() || command.description())}`),
        ...(values.length > 0 ? [`${line} -f -a ${quoted(values.join(" "))}`] : []),
        ...options.map(({ long, short, required, argChoices, description }) =>
          [
            line,
            ...(long ? [`-l ${long.slice(2)}`] : []),
            ...(short ? [`-s ${short.slice(1)}`] : []),
            ...(required ? ["-r"] : []),
            ...(argChoices ? [`-f -a ${quoted(argChoices.join(" "))}`] : []),
            `-d ${quoted(description)}`,
          ].join(" "),
        ),
      ];
    })
    .map((line) => `${line}\n`)
    .join("");
}

function flagsOf({ long, short }: Option): readonly string[] {
  return [long, short].filter((flag) => flag !== undefined && flag !== null);
}
