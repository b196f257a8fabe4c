// Elements, colours, numbers and canvases that the rest of the page shares.

/** An element: h("button", {type: "button", onclick: f}, "text", child). Text is never read as HTML. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** A number as people write it: about four digits, an exponent only where it helps. */
function format(value, unit = "") {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  let text;
  if (size && (size < 1e-3 || size >= 1e6)) text = value.toExponential(2);
  else if (Number.isInteger(value)) text = value.toLocaleString("en-US");
  else text = value.toFixed(size >= 100 ? 1 : size >= 1 ? 2 : 4);
  return text.replace("-", "−") + (unit ? `\u2009${unit}` : "");
}

// Colours come from the style sheet, so that light and dark have one home. Pictures redraw when the theme changes.
const theme = {
  colours: {},
  listeners: new Set(),
  read() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "soft", "faint", "line", "card", "page", "accent", "bad"]) {
      this.colours[name] = style.getPropertyValue(`--${name}`).trim();
    }
    this.colours.palette = Array.from({ length: 8 }, (_, i) => style.getPropertyValue(`--c${i}`).trim());
    for (const redraw of this.listeners) redraw();
  },
};
const ink = (name) => theme.colours[name];
const hue = (index) => theme.colours.palette[index % 8];
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

/** A canvas that fills its box at the screen's resolution and calls draw(context, width, height) when it must. */
function surface(label, name, draw) {
  const canvas = h("canvas", { class: name, tabindex: "0", role: "img", "aria-label": label });
  let waiting = false;
  const paint = () => {
    waiting = false;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    const ratio = clamp(window.devicePixelRatio || 1, 1, 3);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    draw(context, width, height);
  };
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(paint);
  };
  new ResizeObserver(redraw).observe(canvas);
  theme.listeners.add(redraw);
  return { canvas, redraw };
}

/** Where a pointer is inside an element. */
function inside(event, element) {
  const box = element.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

/** A box of text that follows the pointer and stays inside its host. */
function tooltip(host) {
  const box = h("div", { class: "tip", hidden: true });
  host.append(box);
  return {
    hide() {
      box.hidden = true;
    },
    show(x, y, ...content) {
      box.replaceChildren(...content);
      box.hidden = false;
      const room = host.clientWidth;
      const left = x + 14 + box.offsetWidth > room ? x - 14 - box.offsetWidth : x + 14;
      box.style.left = `${clamp(left, 0, Math.max(room - box.offsetWidth, 0))}px`;
      box.style.top = `${clamp(y - box.offsetHeight / 2, 0, Math.max(host.clientHeight - box.offsetHeight, 0))}px`;
    },
  };
}

/** What assistive technology reads out when a picture changes. */
const voice = () => h("p", { class: "hidden", "aria-live": "polite", role: "status" });

const button = (text, onclick, more = {}) => h("button", { type: "button", onclick, ...more }, text);

/** A button that is on or off. */
function toggle(text, on, change, more = {}) {
  const element = button(text, () => set(element.getAttribute("aria-pressed") !== "true"), more);
  const set = (value, quiet = false) => {
    element.setAttribute("aria-pressed", String(value));
    if (!quiet) change(value);
  };
  set(on, true);
  element.set = set;
  return element;
}

/** Buttons of which one is on: choices = [[value, text], ...]. */
function choice(label, choices, chosen, change) {
  const buttons = choices.map(([value, text]) =>
    button(
      text,
      () => {
        buttons.forEach((one, i) => one.setAttribute("aria-pressed", String(choices[i][0] === value)));
        change(value);
      },
      { "aria-pressed": String(value === chosen) },
    ),
  );
  return h("div", { class: "buttons", role: "group", "aria-label": label }, ...buttons);
}

/** A table in a box that scrolls by itself. */
function numbersTable(caption, head, rows) {
  const cells = (tag, row) => h("tr", {}, ...row.map((cell, i) => h(i ? tag : "th", { scope: tag === "th" ? "col" : i ? null : "row" }, cell)));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { class: "numbers" }, h("caption", {}, h("span", {}, caption)), h("thead", {}, cells("th", head)), h("tbody", {}, ...rows.map((row) => cells("td", row)))),
  );
}
