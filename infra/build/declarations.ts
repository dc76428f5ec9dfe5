/** The declarations of the published package's entry points. They name no other package, so that `tsc` needs nothing but the tarball. */
import { dirname, join, relative } from "node:path";

import ts from "typescript";

/** Folder of the declarations that the entry points share. */
const SHARED = "types";

/**
 * Maps paths (relative to the entry points) to declaration files: those of the entry points and of the modules that they reach.
 * @throws {Error} for a type of another package
 */
export function declarationsOf(root: string, entryPoints: readonly string[]): ReadonlyMap<string, string> {
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile) as { readonly config: unknown };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const emitting: ts.CompilerOptions = { ...options, noEmit: false, declaration: true, emitDeclarationOnly: true };
  const reached = ts.createProgram(entryPoints, emitting);
  // The compiler emits nothing for a file that it found in node_modules, as every package here, unless it is also a root.
  const roots = reached.getSourceFiles().flatMap(({ fileName }) => (fileName.startsWith(join(root, "shared/")) ? [fileName] : []));
  const program = ts.createProgram([...roots, ...entryPoints], emitting, undefined, reached);
  const pathOf = (file: string): string =>
    entryPoints.includes(file)
      ? `${relative(dirname(file), file).replace(/ts$/, "")}d.ts`
      : `${SHARED}/${relative(join(root, "shared"), file).replace(/ts$/, "")}d.ts`;
  const files = new Map<string, string>();
  const waiting = [...entryPoints];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    const path = pathOf(file);
    if (files.has(path)) continue;
    let text = declarationOf(program, file);
    for (const { specifier, start, end } of specifiersOf(text).toReversed()) {
      const found = ts.resolveModuleName(specifier, file, emitting, ts.sys).resolvedModule?.resolvedFileName;
      if (found === undefined || !found.startsWith(join(root, "shared/")))
        throw new Error(`${relative(root, file)} uses a type of ${specifier}: declare it in the published package`);
      waiting.push(found);
      const target = relative(dirname(path), pathOf(found)).replace(/\.d\.ts$/, ".js");
      text = `${text.slice(0, start)}${target.startsWith(".") ? target : `./${target}`}${text.slice(end)}`;
    }
    files.set(path, text);
  }
  return files;
}

function declarationOf(program: ts.Program, file: string): string {
  let text: string | undefined;
  const { diagnostics } = program.emit(program.getSourceFile(file), (_, written) => (text = written), undefined, true);
  const problems = diagnostics.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
  if (text === undefined || problems.length > 0) throw new Error(`no declarations of ${file}: ${problems.join("; ")}`);
  return text;
}

/** The specifiers of imports, exports and import types, with the place between their quotes. */
function specifiersOf(text: string): readonly { readonly specifier: string; readonly start: number; readonly end: number }[] {
  const source = ts.createSourceFile("a.d.ts", text, ts.ScriptTarget.Latest, true);
  const found: { specifier: string; start: number; end: number }[] = [];
  const visit = (node: ts.Node): void => {
    const literal =
      ts.isImportDeclaration(node) || ts.isExportDeclaration(node)
        ? node.moduleSpecifier
        : ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)
          ? node.argument.literal
          : undefined;
    if (literal !== undefined && ts.isStringLiteral(literal))
      found.push({ specifier: literal.text, start: literal.getStart() + 1, end: literal.getEnd() - 1 });
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}
