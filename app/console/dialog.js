// The dialog that asks before something that cannot be undone.

import { make } from "/static/dom.js";

/** Ask, and give whether the person pressed `action`. Escape and Cancel mean no; the browser restores the focus. */
export function askToConfirm({ title, lines, action }) {
  const dialog = document.getElementById("dialog");
  return new Promise((resolve) => {
    dialog.replaceChildren(
      make("h2", { id: "dialog-title" }, title),
      ...lines.map((line) => make("p", null, line)),
      make(
        "div",
        { class: "actions" },
        make("button", { type: "button", class: "plain", autofocus: true, click: () => dialog.close("") }, "Cancel"),
        make("button", { type: "button", click: () => dialog.close("yes") }, action),
      ),
    );
    dialog.returnValue = "";
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
  });
}
