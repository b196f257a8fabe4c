// Puts everything in its place.

const data = JSON.parse(document.getElementById("data").textContent);

function themes() {
  const switcher = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null; // until somebody chooses, the system does
  const show = () => {
    const dark = chosen ?? system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    switcher.setAttribute("aria-pressed", String(dark));
    theme.read();
  };
  switcher.addEventListener("click", () => {
    chosen = !(chosen ?? system.matches);
    show();
  });
  system.addEventListener("change", show);
  window.addEventListener("beforeprint", () => {
    document.documentElement.dataset.theme = "light";
    theme.read();
  });
  window.addEventListener("afterprint", show);
  show();
}

/** Draw a run's charts when it is first looked at. */
function reveal(index) {
  const run = data.runs[index];
  for (const panel of document.querySelectorAll(".panel")) panel.hidden = Number(panel.dataset.run) !== index;
  const fill = (name, make) => {
    const host = document.querySelector(`.${name}[data-run="${index}"]`);
    if (host && !host.childElementCount) make(host);
  };
  fill("sphere-view", (host) => {
    if (run.sphere) new Sphere(host, run.sphere, run.label);
    else host.append(h("p", { class: "note" }, "Features of one dimension have no directions to show."));
  });
  fill("energy-view", (host) => energyCurves(host, data, run));
  fill("matrix-view", (host) => new Matrix(host, run.confusion, run.label));
  contents();
}

/** Two runs beside each other; they turn together unless that is switched off. */
function compare(host) {
  const known = data.runs.map((run, i) => [run, i]).filter(([run]) => run.sphere);
  const boxes = [h("div"), h("div")];
  const shown = [null, null];
  let together = true;
  const link = () => {
    const joined = together && shown.every((one) => one && !one.plane);
    shown.forEach((one, side) => one && (one.partner = joined ? shown[1 - side] : null));
    if (joined) shown[1].follow(shown[0]);
  };
  const put = (side, index) => {
    boxes[side].replaceChildren();
    shown[side] = new Sphere(boxes[side], data.runs[index].sphere, data.runs[index].label, true);
    link();
  };
  const choose = (side) => {
    const list = h("select", { "aria-label": side ? "Run on the right" : "Run on the left", onchange: (event) => put(side, Number(event.target.value)) });
    known.forEach(([run, i], n) => list.append(h("option", { value: i, selected: n === side }, run.label)));
    return h("div", {}, list, boxes[side]);
  };
  const linked = toggle("Turn together", true, (on) => {
    together = on;
    link();
  });
  host.append(h("div", { class: "buttons" }, linked), h("div", { class: "two" }, choose(0), choose(1)));
  known.slice(0, 2).forEach(([, i], side) => put(side, i));
}

/** Links to what is on the page now. */
function contents() {
  const list = document.querySelector(".toc ul");
  const heads = [...document.querySelectorAll("main h2[id]")].filter((head) => !head.closest("[hidden]"));
  list.replaceChildren(...heads.map((head) => h("li", {}, h("a", { href: `#${head.id}` }, head.textContent))));
}

/** Histograms are drawn by the server: their numbers lie beside them. */
function histograms() {
  for (const group of document.querySelectorAll(".multiples")) {
    const figures = [...group.querySelectorAll("figure")];
    const label = group.dataset.label;
    const rows = () => [["layer", "from", "to", "count"], ...figures.flatMap((one) => JSON.parse(one.dataset.bins).map((bin) => [one.dataset.layer, ...bin]))];
    const png = async () => {
      const scale = 2;
      const sizes = figures.map((one) => one.querySelector("svg").viewBox.baseVal);
      const sheet = h("canvas", { width: scale * (sizes[0].width + 20), height: scale * sizes.reduce((sum, size) => sum + size.height + 26, 10) });
      const context = sheet.getContext("2d");
      context.scale(scale, scale);
      context.fillStyle = ink("card");
      context.fillRect(0, 0, sheet.width, sheet.height);
      let top = 10;
      for (const [i, one] of figures.entries()) {
        context.fillStyle = ink("ink");
        context.font = FONT;
        context.textBaseline = "top";
        context.fillText(one.dataset.layer, 10, top);
        context.drawImage(await drawn(one.querySelector("svg"), sizes[i]), 10, top + 18, sizes[i].width, sizes[i].height);
        top += sizes[i].height + 26;
      }
      save(`${fileName(label)}.png`, sheet.toDataURL("image/png"));
    };
    group.before(h("div", { class: "buttons tools" }, saving(() => saveCsv(label, rows()), png)));
  }
}

/** An SVG element as an image, with the colours that it has on the page. */
async function drawn(svg, size) {
  const copy = svg.cloneNode(true);
  const [from, to] = [svg, copy].map((one) => [one, ...one.querySelectorAll("*")]);
  from.forEach((one, i) => {
    const style = getComputedStyle(one);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family"]) to[i].setAttribute(name, style.getPropertyValue(name));
  });
  for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width: 2 * size.width, height: 2 * size.height })) copy.setAttribute(name, value);
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await picture.decode();
  return picture;
}

function picker() {
  const buttons = [...document.querySelectorAll(".picker button")];
  for (const one of buttons) {
    one.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === one));
      reveal(Number(one.dataset.run));
    });
  }
}

function copying() {
  for (const one of document.querySelectorAll("button.copy")) {
    one.addEventListener("click", async () => {
      const code = one.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        one.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code); // no clipboard for this page: mark it instead
        one.textContent = "Selected";
      }
      setTimeout(() => (one.textContent = "Copy"), 2000);
    });
  }
}

themes();
learningCurves(document.querySelector(".curves-view"), data);
const roc = document.querySelector(".roc-view");
if (roc) rocCurves(roc, data);
const two = document.querySelector(".compare-view");
if (two) compare(two);
picker();
copying();
histograms();
reveal(0);
document.querySelectorAll("main table").forEach(sortable);
scrollCues();
