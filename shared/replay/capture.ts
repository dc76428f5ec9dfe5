export { openCapture } from "./capture-format/capture-stream.ts";
export type { Capture, Census, OpenOptions } from "./capture-format/capture-stream.ts";
export { CaptureError, ForeignFormatError, RecordReader } from "./capture-format/capture.ts";
export { linesOf, openBytes } from "./capture-format/line-stream.ts";
export { recordingWatch } from "./capture-format/recorder.ts";
export type { CaptureRecord, EvidenceRecord } from "./capture-format/capture.ts";
export type { RecordingWatch } from "./capture-format/recorder.ts";
