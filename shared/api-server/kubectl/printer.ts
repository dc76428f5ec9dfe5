/** The columns of the Table format for each kind. */
import type { Json, JsonObject } from "@deltaloop/base";

export interface Column {
  readonly name: string;
  readonly type?: string;
  readonly format?: string;
  /** 1 is shown by `-o wide` only. */
  readonly priority?: number;
}

export interface Printer {
  readonly columns: readonly Column[];
  readonly cells: (object: JsonObject, nowMs: number) => Json[];
}
