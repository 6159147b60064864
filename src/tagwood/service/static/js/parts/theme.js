// Colour theme: light, dark or the system's.
import { h, put } from "../dom.js";
import { icon } from "../icons.js";

const KEY = "tagwood-theme";
const THEMES = [
  { name: "auto", picture: "auto", words: "Colours: system" },
  { name: "light", picture: "sun", words: "Colours: light" },
  { name: "dark", picture: "moon", words: "Colours: dark" },
];

function apply(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

/** The button that switches between the three. */
export function themeButton() {
  let place = Math.max(0, THEMES.findIndex((one) => one.name === localStorage.getItem(KEY)));
  const button = h("button", { type: "button", class: "icon-button" });
  const show = () => {
    const { name, picture, words } = THEMES[place];
    apply(name);
    button.title = words;
    button.setAttribute("aria-label", words);
    put(button, icon(picture));
  };
  button.addEventListener("click", () => {
    place = (place + 1) % THEMES.length;
    localStorage.setItem(KEY, THEMES[place].name);
    show();
  });
  show();
  return button;
}

apply(localStorage.getItem(KEY) ?? "auto");
