/**
 * The declarations of the published package's entry points: what these export, and all that it refers to. They name no other package, so
 * that `tsc` needs nothing but the tarball.
 */
import { dirname, join, relative } from "node:path";

import ts from "typescript";

/** Folder of the declarations that the entry points share. */
const SHARED = "types";
/** Stands for all exports of a module. */
const ALL = "*";

/** One module's declarations, as the compiler emits them. */
interface Declared {
  readonly source: ts.SourceFile;
  /** The statements that declare a name; several for overloads. */
  readonly named: ReadonlyMap<string, readonly ts.Statement[]>;
  /** Names that other modules export. A namespace import has `name` ALL. */
  readonly imported: ReadonlyMap<string, { readonly file: string; readonly name: string }>;
  /** The file to which each specifier leads. */
  readonly files: ReadonlyMap<string, string>;
  readonly needed: Set<string>;
  readonly kept: Set<ts.Statement>;
}

/**
 * Maps paths (relative to the entry points) to declaration files.
 * @throws {Error} for a type of another package
 */
export function declarationsOf(root: string, entryPoints: readonly string[]): ReadonlyMap<string, string> {
  const declared = declaredBy(root, entryPoints);
  const pathOf = (file: string): string =>
    entryPoints.includes(file)
      ? relative(dirname(file), file).replace(/ts$/, "d.ts")
      : join(SHARED, relative(join(root, "shared"), file).replace(/ts$/, "d.ts"));
  return new Map(
    [...declared].map(([file, module]) => {
      const specifier = (target: string): string => {
        const path = relative(dirname(pathOf(file)), pathOf(target)).replace(/\.d\.ts$/, ".js");
        return path.startsWith(".") ? path : `./${path}`;
      };
      return [pathOf(file), textOf(module, specifier)] as const;
    }),
  );
}

/** The modules that the entry points reach, with the statements that are needed. */
function declaredBy(root: string, entryPoints: readonly string[]): ReadonlyMap<string, Declared> {
  const compiled = compiler(root, entryPoints);
  const modules = new Map<string, Declared>();
  const waiting = entryPoints.map((file) => ({ file, name: ALL, from: file }));
  const need = (file: string, name: string, from: string): void => void waiting.push({ file, name, from });
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { file, name, from } = next;
    if (!file.startsWith(join(root, "shared/")) && !entryPoints.includes(file))
      throw new Error(`${relative(root, from)} uses a type of ${relative(root, file)}: declare it in the published package`);
    const module = modules.get(file) ?? compiled(file);
    modules.set(file, module);
    if (module.needed.has(name)) continue;
    module.needed.add(name);
    keep(module, name, (target, wanted) => need(target, wanted, file));
  }
  return modules;
}

/** Keeps the statements that declare or export `name`, and calls `need` for what they refer to elsewhere. */
function keep(module: Declared, name: string, need: (file: string, name: string) => void): void {
  for (const statement of module.source.statements.filter(ts.isExportDeclaration)) {
    const target = fileOf(module, statement.moduleSpecifier);
    if (target === undefined) continue;
    const { exportClause } = statement;
    if (exportClause === undefined) need(target, name);
    else if (ts.isNamedExports(exportClause))
      for (const each of exportClause.elements)
        if (name === ALL || each.name.text === name) need(target, (each.propertyName ?? each.name).text);
  }
  const exported = (statements: readonly ts.Statement[]): boolean =>
    statements.some((each) => ts.canHaveModifiers(each) && ts.getModifiers(each)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword));
  const names = name === ALL ? [...module.named].flatMap(([each, statements]) => (exported(statements) ? [each] : [])) : [name];
  for (const statement of names.flatMap((each) => module.named.get(each) ?? [])) {
    if (module.kept.has(statement)) continue;
    module.kept.add(statement);
    const visit = (node: ts.Node): void => {
      if (ts.isIdentifier(node)) {
        const imported = module.imported.get(node.text);
        if (imported) need(imported.file, imported.name);
        if (module.named.has(node.text)) keep(module, node.text, need);
        if (imported) module.needed.add(node.text);
      }
      if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
        const target = fileOf(module, node.argument.literal);
        const [first] = node.qualifier === undefined ? [ALL] : node.qualifier.getText().split(".");
        if (target !== undefined) need(target, first ?? ALL);
      }
      ts.forEachChild(node, visit);
    };
    visit(statement);
  }
}

function fileOf({ files }: Declared, specifier: ts.Node | undefined): string | undefined {
  return specifier !== undefined && ts.isStringLiteral(specifier) ? files.get(specifier.text) : undefined;
}

/** Returns what declares the modules of a program. */
function compiler(root: string, entryPoints: readonly string[]): (file: string) => Declared {
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile) as { readonly config: unknown };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const emitting: ts.CompilerOptions = { ...options, noEmit: false, declaration: true, emitDeclarationOnly: true };
  const reached = ts.createProgram(entryPoints, emitting);
  // The compiler emits nothing for a file that it found in node_modules, as every package here, unless it is also a root.
  const roots = reached.getSourceFiles().flatMap(({ fileName }) => (fileName.startsWith(join(root, "shared/")) ? [fileName] : []));
  const program = ts.createProgram([...roots, ...entryPoints], emitting, undefined, reached);
  return (file) => {
    let text: string | undefined;
    program.emit(program.getSourceFile(file), (_, written) => (text = written), undefined, true);
    if (text === undefined) throw new Error(`the compiler emits no declarations of ${file}`);
    const source = ts.createSourceFile(`${file}.d.ts`, text, ts.ScriptTarget.Latest, true);
    const files = new Map<string, string>();
    for (const { fileName: specifier } of ts.preProcessFile(text, true, false).importedFiles) {
      const found = ts.resolveModuleName(specifier, file, emitting, ts.sys).resolvedModule?.resolvedFileName;
      if (found !== undefined) files.set(specifier, found);
    }
    return { source, files, named: namesIn(source), imported: importsIn(source, files), needed: new Set(), kept: new Set() };
  };
}

function namesIn(source: ts.SourceFile): ReadonlyMap<string, readonly ts.Statement[]> {
  const named = new Map<string, ts.Statement[]>();
  const add = (name: string, statement: ts.Statement): void => void named.set(name, [...(named.get(name) ?? []), statement]);
  for (const statement of source.statements) {
    if (ts.isVariableStatement(statement)) for (const { name } of statement.declarationList.declarations) add(name.getText(), statement);
    else if ("name" in statement && statement.name !== undefined) add((statement.name as ts.Identifier).text, statement); // of a declaration
  }
  return named;
}

function importsIn(source: ts.SourceFile, files: ReadonlyMap<string, string>): Declared["imported"] {
  const imported = new Map<string, { readonly file: string; readonly name: string }>();
  for (const { importClause, moduleSpecifier } of source.statements.filter(ts.isImportDeclaration)) {
    const file = ts.isStringLiteral(moduleSpecifier) ? files.get(moduleSpecifier.text) : undefined;
    const bindings = importClause?.namedBindings;
    if (file === undefined || bindings === undefined) continue;
    if (ts.isNamespaceImport(bindings)) imported.set(bindings.name.text, { file, name: ALL });
    else for (const { name, propertyName } of bindings.elements) imported.set(name.text, { file, name: (propertyName ?? name).text });
  }
  return imported;
}

function textOf({ source, files, imported, needed, kept, named }: Declared, specifier: (file: string) => string): string {
  const imports = [...imported].flatMap(([local, { file, name }]) => {
    if (!needed.has(local) || named.has(local)) return [];
    const from = `from ${JSON.stringify(specifier(file))};\n`;
    if (name === ALL) return [`import type * as ${local} ${from}`];
    return [`import type { ${name === local ? name : `${name} as ${local}`} } ${from}`];
  });
  const quoted = (text: string): string =>
    [...files].reduce((all, [from, file]) => all.replaceAll(JSON.stringify(from), JSON.stringify(specifier(file))), text);
  const statements = source.statements.flatMap((statement) => {
    if (kept.has(statement)) return [`${quoted(statement.getFullText().trim())}\n`]; // with its comment
    if (!ts.isExportDeclaration(statement) || statement.moduleSpecifier === undefined) return [];
    const { exportClause } = statement;
    if (exportClause === undefined || !ts.isNamedExports(exportClause)) return [`${quoted(statement.getText())}\n`];
    const names = exportClause.elements.filter(({ name }) => needed.has(ALL) || needed.has(name.text)).map((each) => each.getText());
    const kind = statement.isTypeOnly ? "export type" : "export";
    return names.length === 0 ? [] : [`${kind} { ${names.join(", ")} } from ${quoted(statement.moduleSpecifier.getText())};\n`];
  });
  return [...imports, ...statements, "export {};\n"].join("");
}
