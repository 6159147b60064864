// Line icons on a grid of 20, drawn with the colour of the text around them.
import { s } from "./dom.js";

const PATHS = {
  tag: "M3 3.5h6.6l7 7a1.6 1.6 0 0 1 0 2.3l-4.3 4.3a1.6 1.6 0 0 1-2.3 0l-7-7zM6.8 7.2v.1",
  labels: "M4 5h12M4 10h12M4 15h7",
  tree: "M3 3h14v4H3zM3 7h8v5H3zM11 7h6v5h-6zM3 12h4v5H3zM11 12h3v5h-3z",
  model: "M3 17V3M3 17h14M6.5 13l3-4 3 2 4-6",
  batch: "M4 4h12v12H4zM4 8.5h12M9 8.5V16",
  review: "M3 5h7v10H3zM12.5 7.5l2.2 2.2L18 5.8M12.5 14h5",
  correct: "M3.5 16.5l1-4 9-9 3 3-9 9zM11.5 5.5l3 3",
  progress: "M4 16V11M8.5 16V7M13 16V9.5M17 16V4",
  check: "M4 10.5l4 4 8-9",
  cross: "M5 5l10 10M15 5L5 15",
  plus: "M10 4v12M4 10h12",
  search: "M8.8 14.6a5.8 5.8 0 1 0 0-11.6 5.8 5.8 0 0 0 0 11.6zM13 13l4 4",
  upload: "M10 13V3.5m0 0L6.2 7.3M10 3.5l3.8 3.8M3.5 13v3.5h13V13",
  download: "M10 3.5V13m0 0l3.8-3.8M10 13L6.2 9.2M3.5 13v3.5h13V13",
  copy: "M7 7h9.5v9.5H7zM13 7V3.5H3.5V13H7",
  sun: "M10 13.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM10 1.5v2M10 16.5v2M1.5 10h2M16.5 10h2M4 4l1.4 1.4M14.6 14.6L16 16M16 4l-1.4 1.4M5.4 14.6L4 16",
  moon: "M16.5 11.8A7 7 0 0 1 8.2 3.5a7 7 0 1 0 8.3 8.3z",
  auto: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM10 3v14M13 4v12M15.5 6v8",
  move: "M3 10h13m0 0l-4-4m4 4l-4 4",
  warn: "M10 3l8 14H2zM10 8v4M10 14.4v.1",
  up: "M10 16V4m0 0L5.5 8.5M10 4l4.5 4.5",
};

/** A decorative icon; the button around it needs an accessible name. */
export function icon(name, size = 18) {
  return s(
    "svg",
    { viewBox: "0 0 20 20", width: size, height: size, class: "icon", "aria-hidden": "true", focusable: "false" },
    s("path", { d: PATHS[name] }),
  );
}
