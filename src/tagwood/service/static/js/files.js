// Reading files, downloads and the clipboard.

/** Read a file as text: by its byte order mark, else UTF-8, else Windows-1252 (older spreadsheets). */
export async function readText(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const mark = [bytes[0], bytes[1]];
  if (mark[0] === 0xff && mark[1] === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (mark[0] === 0xfe && mark[1] === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

/** Return the kind of a file by its name: "table", "text" or "other". */
export function fileKind(file) {
  const name = file.name.toLowerCase();
  if (/\.(csv|tsv|tab)$/.test(name) || file.type === "text/csv") return "table";
  if (/\.(txt|text|md|rst|html?|json)$/.test(name) || file.type.startsWith("text/")) return "text";
  return "other";
}

/** Let the user download a file; `parts` is a list of strings. */
export function download(name, parts, type = "text/plain") {
  const address = URL.createObjectURL(new Blob(parts, { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Copy text to the clipboard, even if the page was not loaded over HTTPS. */
export async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("The browser does not let this page use the clipboard.");
}
