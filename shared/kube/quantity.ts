export { canonicalQuantity } from "./quantity/quantity-text.ts";
export { numericQuantity, parseQuantity, quantitiesEqual, quantityNanos, suffixOf } from "./quantity/quantity.ts";
