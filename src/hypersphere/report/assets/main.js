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
picker();
copying();
reveal(0);
