export { createCri } from "./cri/cri.ts";
