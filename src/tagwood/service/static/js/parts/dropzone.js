// Opening files: by drag and drop, or with a button that opens the file dialog.
import { h } from "../dom.js";
import { icon } from "../icons.js";

/** Let files be dropped on `element`; `take(file)` gets the first one. */
export function droppable(element, take) {
  let depth = 0;
  const hasFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  element.addEventListener("dragenter", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    depth += 1;
    element.classList.add("dropping");
  });
  element.addEventListener("dragover", (event) => {
    if (hasFile(event)) event.preventDefault();
  });
  element.addEventListener("dragleave", () => {
    depth = Math.max(0, depth - 1);
    if (depth === 0) element.classList.remove("dropping");
  });
  element.addEventListener("drop", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    depth = 0;
    element.classList.remove("dropping");
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
}

/** A button that opens the file dialog. */
export function fileButton(text, accept, take, style = "button") {
  const input = h("input", {
    type: "file",
    accept,
    hidden: true,
    onchange: () => {
      if (input.files[0]) take(input.files[0]);
      input.value = "";
    },
  });
  return h("span", { class: "file-button" }, h("button", { type: "button", class: style, onclick: () => input.click() }, icon("upload", 16), text), input);
}
