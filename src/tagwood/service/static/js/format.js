// Formatting of numbers and texts, in English.

const WHOLE = new Intl.NumberFormat("en");

/** 12345 -> "12,345". */
export function count(value) {
  return WHOLE.format(value);
}

/** 1 -> "1 label", 3 -> "3 labels". */
export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** 0.873 -> "87 %"; never rounds up to 100 or down to 0. */
export function percent(share, digits = 0) {
  if (!Number.isFinite(share)) return "–";
  const scale = 10 ** digits;
  let value = Math.round(share * 100 * scale) / scale;
  if (value >= 100 && share < 1) value = 100 - 1 / scale;
  if (value <= 0 && share > 0) return `< ${1 / scale} %`;
  return `${value.toFixed(digits)} %`;
}

/** 0.12345 -> "0.123". */
export function decimal(value, digits = 3) {
  return Number.isFinite(value) ? value.toFixed(digits) : "–";
}

/** Seconds in words: "40 s", "3 min". */
export function duration(seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** Cut a text to `longest` characters. */
export function cut(text, longest = 160) {
  const characters = Array.from(text.replace(/\s+/g, " ").trim());
  return characters.length <= longest ? characters.join("") : `${characters.slice(0, longest - 1).join("")}…`;
}
