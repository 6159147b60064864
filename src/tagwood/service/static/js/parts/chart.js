// Line charts in SVG, drawn with the page's colours; each has a table with the same numbers.
import { h, s } from "../dom.js";

const WIDTH = 520;
const HEIGHT = 300;
const PAD = { left: 46, right: 18, top: 14, bottom: 42 };

/**
 * Create a chart.
 * axes: x and y with {label, min, max, ticks, format, scale}; series: {name, points: [{x, y, note, big}], kind: "line"|"dots", tone}.
 */
export function chart({ title, x, y, series, diagonal = false }) {
  const scaleX = scale(x, PAD.left, WIDTH - PAD.right);
  const scaleY = scale(y, HEIGHT - PAD.bottom, PAD.top);
  const drawing = s(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title },
    grid(x, y, scaleX, scaleY),
    diagonal && s("line", { class: "chart-diagonal", x1: scaleX(x.min), y1: scaleY(y.min), x2: scaleX(x.max), y2: scaleY(y.max) }),
    series.map((one) => curve(one, scaleX, scaleY)),
  );
  return h("figure", { class: "figure" }, series.length > 1 && legend(series), drawing, table(title, x, y, series));
}

function scale(axis, begin, end) {
  const f = axis.scale ?? ((value) => value);
  const [low, high] = [f(axis.min), f(axis.max)];
  return (value) => begin + ((f(value) - low) / (high - low || 1)) * (end - begin);
}

function grid(x, y, scaleX, scaleY) {
  const bottom = HEIGHT - PAD.bottom;
  return [
    y.ticks.map((tick) => [
      s("line", { class: "chart-grid", x1: PAD.left, x2: WIDTH - PAD.right, y1: scaleY(tick), y2: scaleY(tick) }),
      s("text", { class: "chart-tick", x: PAD.left - 8, y: scaleY(tick) + 4, "text-anchor": "end" }, y.format(tick)),
    ]),
    x.ticks.map((tick) => s("text", { class: "chart-tick", x: scaleX(tick), y: bottom + 18, "text-anchor": "middle" }, x.format(tick))),
    s("text", { class: "chart-axis", x: (PAD.left + WIDTH - PAD.right) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, x.label),
  ];
}

function curve({ points, kind, tone }, scaleX, scaleY) {
  const at = (point) => `${scaleX(point.x).toFixed(1)},${scaleY(point.y).toFixed(1)}`;
  const dots = points
    .filter((point) => kind === "dots" || point.big)
    .map((point) => s("circle", { class: `chart-dot tone-${tone}`, cx: scaleX(point.x), cy: scaleY(point.y), r: point.big ? 6 : 4 }, s("title", null, point.note ?? "")));
  return [points.length > 1 && s("polyline", { class: `chart-line tone-${tone}`, points: points.map(at).join(" ") }), dots];
}

function legend(series) {
  return h("ul", { class: "legend", "aria-hidden": "true" }, series.map((one) => h("li", null, h("span", { class: `legend-line tone-${one.tone}` }), one.name)));
}

/** The numbers as a table, for users who cannot see the chart. */
function table(title, x, y, series) {
  const rows = [...new Set(series.flatMap((one) => one.points.map((point) => point.x)))].sort((a, b) => a - b);
  const cell = (one, value) => {
    const point = one.points.find((other) => other.x === value);
    return h("td", null, point ? (one.format ?? y.format)(point.y) : "");
  };
  return h(
    "details",
    { class: "numbers" },
    h("summary", null, "Numbers"),
    h(
      "div",
      { class: "table-wrap", tabindex: "0", role: "region", "aria-label": `Numbers: ${title}` },
      h(
        "table",
        { class: "table" },
        h("thead", null, h("tr", null, h("th", { scope: "col" }, x.label), series.map((one) => h("th", { scope: "col" }, one.name)))),
        h("tbody", null, rows.map((value) => h("tr", null, h("th", { scope: "row" }, (x.exact ?? x.format)(value)), series.map((one) => cell(one, value))))),
      ),
    ),
  );
}

/** Round tick values between two numbers. */
export function ticks(min, max, wanted = 5) {
  const rough = (max - min) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let value = Math.ceil(min / step) * step; value <= max + step / 1e6; value += step) found.push(Number(value.toPrecision(10)));
  return found;
}
