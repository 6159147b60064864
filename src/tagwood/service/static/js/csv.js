// Reading CSV and TSV files of spreadsheets (quotes, line breaks inside quotes, BOM), and writing CSV.

/** Return the separator (comma, semicolon or tab) that splits the first line into the most fields. */
export function separator(text) {
  const counts = { ",": 0, ";": 0, "\t": 0, "|": 0 };
  let quoted = false;
  for (const character of text.slice(0, 100_000)) {
    if (character === '"') quoted = !quoted;
    else if (!quoted && (character === "\n" || character === "\r")) break;
    else if (!quoted && character in counts) counts[character] += 1;
  }
  return Object.entries(counts).reduce((best, one) => (one[1] > best[1] ? one : best))[0];
}

/** Return rows of fields; empty lines are skipped. */
export function parse(text, mark = separator(text)) {
  const rows = [];
  let row = [];
  let place = text.startsWith("\uFEFF") ? 1 : 0;
  const end = text.length;
  while (place < end) {
    let field = "";
    if (text[place] === '"') {
      [field, place] = quotedField(text, place + 1);
    }
    let stop = place;
    while (stop < end && text[stop] !== mark && text[stop] !== "\n" && text[stop] !== "\r") stop += 1;
    field += text.slice(place, stop);
    row.push(field);
    place = stop;
    if (text[place] === mark) {
      place += 1;
      if (place < end) continue;
      row.push("");
    }
    if (row.length > 1 || row[0] !== "") rows.push(row);
    row = [];
    if (text[place] === "\r" && text[place + 1] === "\n") place += 1;
    place += 1;
    if (text[place - 1] === undefined) break;
  }
  return rows;
}

function quotedField(text, begin) {
  let field = "";
  let place = begin;
  for (;;) {
    const quote = text.indexOf('"', place);
    if (quote < 0) return [field + text.slice(place), text.length];
    field += text.slice(place, quote);
    if (text[quote + 1] !== '"') return [field, quote + 1];
    field += '"';
    place = quote + 2;
  }
}

/** A row as a line of CSV. */
export function line(fields) {
  return `${fields.map(writeField).join(",")}\r\n`;
}

function writeField(value) {
  const text = String(value ?? "");
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const TITLES = ["title", "heading", "headline"];

/** The column with titles, as the command line chooses it, or -1. */
export function titleColumn(header) {
  const names = header.map((name) => name.trim().toLowerCase());
  return names.indexOf(TITLES.find((wanted) => names.includes(wanted)));
}

/** The text of a row: its title, if there is such a column, and its text, as the command line joins them. */
export function rowText(row, column, title) {
  const parts = title >= 0 && title !== column ? [row[title], row[column]] : [row[column]];
  return parts.filter((part) => part).join("\n");
}

/** The column that most likely holds the text: by name, else the one with the longest fields. */
export function textColumn(header, rows) {
  const names = header.map((name) => name.trim().toLowerCase());
  for (const wanted of ["text", "content", "body", "abstract", "description", "document", "question", "query", "title"]) {
    if (names.includes(wanted)) return names.indexOf(wanted);
  }
  const sample = rows.slice(0, 50);
  const lengths = header.map((_, column) => sample.reduce((sum, row) => sum + (row[column]?.length ?? 0), 0));
  return lengths.indexOf(Math.max(...lengths));
}

const IDS = ["id", "uid", "doc_id", "document_id", "docid"];

/** The rows of a table as records {id, text}; columns are chosen as the command line chooses them. */
export function tableRecords(text, { column, title } = {}) {
  const [header = [], ...rows] = parse(text);
  if (rows.length === 0) throw new Error("The table has no rows below its first line.");
  const words = column ?? textColumn(header, rows);
  const head = title ?? titleColumn(header);
  const names = header.map((name) => name.trim().toLowerCase());
  const id = names.indexOf(IDS.find((wanted) => names.includes(wanted)));
  return rows.map((row, n) => ({ id: (id >= 0 && row[id]) || `row ${n + 1}`, text: rowText(row, words, head) })).filter((one) => one.text.trim());
}
