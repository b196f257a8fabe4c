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
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [12, 4]]; // five dashes and eight colours: forty lines differ
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

/** A short piece of a line as the chart draws it: colour and dashes. */
function lineSample(one) {
  const [svg, stroke] = ["svg", "line"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  const dashes = DASHES[(one.dash ?? 0) % DASHES.length];
  for (const [name, value] of Object.entries({ class: `sample c${one.hue % 8}`, viewBox: "0 0 26 8", "aria-hidden": "true" })) svg.setAttribute(name, value);
  for (const [name, value] of Object.entries({ x1: 1, x2: 25, y1: 4, y2: 4, stroke: "currentColor", "stroke-width": 2.4 })) stroke.setAttribute(name, value);
  if (dashes.length) stroke.setAttribute("stroke-dasharray", dashes.map((d) => d * 0.8).join(" "));
  svg.append(stroke);
  return svg;
}

/** A tip that a finger opened goes when something else is touched. */
function closeOnTouch(host, hide) {
  document.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" && !host.contains(event.target)) hide();
  });
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

// Saving ------------------------------------------------------------------------------------------

const fileName = (label) => label.toLowerCase().replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) || "chart";

function save(name, address) {
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

/** Rows as a CSV file; numbers as they are, texts in quotes where they need them. */
function saveCsv(label, rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    const safe = typeof value === "string" && /^[=+@\t\r]|^-(?![\d.])/.test(text) ? `'${text}` : text; // no formulas for spreadsheets
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const text = rows.map((row) => row.map(cell).join(",")).join("\r\n");
  save(`${fileName(label)}.csv`, `data:text/csv;charset=utf-8,${encodeURIComponent(`\ufeff${text}\r\n`)}`);
}

/** A canvas with its title above and the names of its lines below, on the colour of the page, as a PNG file. */
function savePng(label, canvas, keys = []) {
  const ratio = canvas.width / canvas.clientWidth;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const room = 28 + 18 * keys.length + (keys.length ? 8 : 0);
  const sheet = h("canvas", { width: Math.round(width * ratio), height: Math.round((height + room) * ratio) });
  const context = sheet.getContext("2d");
  context.scale(ratio, ratio);
  context.fillStyle = ink("card");
  context.fillRect(0, 0, width, height + room);
  context.fillStyle = ink("ink");
  context.font = `600 ${FONT}`;
  context.textBaseline = "middle";
  context.fillText(label, 8, 14, width - 16);
  context.drawImage(canvas, 0, 28, width, height);
  context.font = FONT;
  keys.forEach((one, i) => {
    const y = height + 28 + 8 + 18 * i;
    context.strokeStyle = context.fillStyle = hue(one.hue);
    context.lineWidth = 2.4;
    if (one.dash === undefined) context.fillRect(14, y - 5, 10, 10);
    else {
      context.setLineDash(DASHES[one.dash % DASHES.length]);
      line(context, 8, y, 36, y);
      context.setLineDash([]);
    }
    context.fillStyle = ink("ink");
    context.fillText(one.name, 44, y, width - 52);
  });
  save(`${fileName(label)}.png`, sheet.toDataURL("image/png"));
}

/** The two buttons that every picture has. */
const saving = (csv, png) =>
  h("span", { class: "saving", role: "group", "aria-label": "Save" }, button("CSV", csv, { "aria-label": "Save the numbers as CSV" }), button("PNG", png, { "aria-label": "Save the picture as PNG" }));

// Tables ------------------------------------------------------------------------------------------

/** The number that a cell begins with, or NaN. */
const leading = (text) => parseFloat(text.replaceAll("−", "-").replaceAll(",", "").replace(/^[^\d.+-]*(?=[\d.+-])/, ""));

/** Buttons in the head of a table that sort its rows. */
function sortable(table) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2 || table.dataset.sortable) return;
  table.dataset.sortable = "true";
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const text = head.textContent.trim();
    if (!text) return;
    const order = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const value = (row) => row.cells[column].textContent.trim();
      const numeric = [...body.rows].filter((row) => Number.isFinite(leading(value(row)))).length * 2 > body.rows.length;
      const rows = [...body.rows].sort((a, b) => {
        if (!numeric) return value(a).localeCompare(value(b), undefined, { numeric: true });
        const [x, y] = [leading(value(a)), leading(value(b))];
        return Number.isNaN(x) || Number.isNaN(y) ? Number.isNaN(x) - Number.isNaN(y) || 0 : x - y;
      });
      const known = (row) => !numeric || !Number.isNaN(leading(value(row)));
      const sorted = down ? [...rows.filter(known).reverse(), ...rows.filter((row) => !known(row))] : rows;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...sorted);
    };
    head.replaceChildren(button(text, order, { class: "sort", title: "Sort by this column" }));
  });
}

/** Say which boxes can be scrolled sideways, so that the style sheet can show it. */
function scrollCues() {
  const mark = (box) => {
    const more = box.scrollWidth - box.clientWidth;
    box.classList.toggle("wide", more > 1);
    box.classList.toggle("at-end", box.scrollLeft >= more - 1);
  };
  const seen = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));
  const watch = (box) => {
    if (box.dataset.cue) return;
    box.dataset.cue = "true";
    box.addEventListener("scroll", () => mark(box), { passive: true });
    seen.observe(box);
  };
  const every = () => document.querySelectorAll(".scroll").forEach(watch);
  every();
  new MutationObserver(every).observe(document.body, { childList: true, subtree: true });
}

/** A table in a box that scrolls by itself. */
function numbersTable(caption, head, rows) {
  const cells = (tag, row) => h("tr", {}, ...row.map((cell, i) => h(i ? tag : "th", { scope: tag === "th" ? "col" : i ? null : "row" }, cell)));
  const table = h("table", { class: "numbers" }, h("caption", {}, h("span", {}, caption)), h("thead", {}, cells("th", head)), h("tbody", {}, ...rows.map((row) => cells("td", row))));
  sortable(table);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
}
