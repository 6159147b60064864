// The dialog that asks for the service's token. It is kept for this browser tab only.
import { h, put, uniqueId } from "../dom.js";

/** Ask for a token; `refused`: the last one was wrong. Resolves to the token, or null if the user cancels. */
export function askToken(refused) {
  return new Promise((resolve) => {
    const id = uniqueId("token");
    const field = h("input", { class: "field", id, type: "password", autocomplete: "off", required: true, "aria-describedby": refused ? `${id}-bad` : null });
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id: `${id}-title` }, "This service requires a token"),
      h("p", null, "The operator of the service has it. It is kept in this browser tab only."),
      refused && h("p", { class: "field-bad", id: `${id}-bad`, role: "alert" }, "The service did not accept this token."),
      h("label", { for: id, class: "field-label" }, "Token"),
      field,
      h(
        "div",
        { class: "row row-end" },
        h("button", { type: "button", class: "button", onclick: () => dialog.close("") }, "Cancel"),
        h("button", { type: "submit", class: "button primary" }, "Continue"),
      ),
    );
    const dialog = h("dialog", { class: "dialog", "aria-labelledby": `${id}-title` }, form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.close(field.value.trim());
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      put(dialog);
      resolve(dialog.returnValue || null);
    });
    document.body.append(dialog);
    dialog.showModal();
    field.focus();
  });
}
