// Learning curves of all runs, energy of one, ROC curves: what the chart is given.

/** Mean, lowest and highest over the seeds at each step. */
function bundle(name, index, column, each) {
  const rows = column.steps.map((_, i) => column.seeds.map((seed) => seed[i]).filter((v) => v !== null));
  const several = column.seeds.length > 1;
  return {
    name,
    hue: index % 8,
    dash: index, // every line has dashes of its own, for those who do not tell the colours apart
    x: column.steps,
    mean: rows.map((row) => (row.length ? row.reduce((a, b) => a + b, 0) / row.length : null)),
    low: several ? rows.map((row) => (row.length ? Math.min(...row) : null)) : undefined,
    high: several ? rows.map((row) => (row.length ? Math.max(...row) : null)) : undefined,
    each: several && each ? column.seeds : undefined,
  };
}

const HINT = "Hover for values, or focus the chart and use the arrow keys. Drag to zoom, or use + and −; double-click to see all.";

function learningCurves(host, data) {
  const measures = data.measures.filter((one) => !one.key.startsWith("energy/"));
  if (!measures.length) {
    host.append(h("p", { class: "note" }, "The logs hold no measurements yet."));
    return;
  }
  let chosen = measures[0];
  let each = false;
  const series = () =>
    data.runs.map((run, i) => (run.curves[chosen.key] ? bundle(run.label, i, run.curves[chosen.key], each) : null)).filter(Boolean);
  const options = () => ({
    label: `${chosen.label} by training step, ${data.runs.map((run) => run.label).join(", ")}`,
    x: "step",
    unit: chosen.unit,
  });
  const seeded = data.runs.some((run) => run.seeds.length > 1);
  const tabs = choice(
    "Measurement",
    measures.map((one) => [one.key, one.label]),
    chosen.key,
    (key) => {
      chosen = measures.find((one) => one.key === key);
      chart.set(series(), options());
    },
  );
  host.append(tabs);
  const chart = new Chart(host, options(), series());
  chart.tools.append(
    toggle("Log scale", false, (on) => {
      chart.logY = on;
      chart.picture.redraw();
    }),
  );
  if (seeded) {
    chart.tools.append(
      toggle("Each seed", false, (on) => {
        each = on;
        const window = chart.range;
        chart.set(series());
        chart.setRange(...window);
      }),
    );
  }
  chart.voice.before(h("p", { class: "hint" }, (seeded ? "Lines are means over the seeds, bands reach from the lowest to the highest. " : "") + HINT));
}

function energyCurves(host, data, run) {
  const keys = Object.keys(run.curves).filter((key) => key === "energy" || key.startsWith("energy/"));
  if (!keys.length) return;
  const name = (key) => (key === "energy" ? "mean of all layers" : data.measures.find((one) => one.key === key).label);
  const series = keys.map((key, i) => bundle(name(key), i, run.curves[key], false));
  new Chart(host, { label: `Hyperspherical energy of each layer of ${run.label} by training step`, x: "step", unit: "" }, series);
}

function rocCurves(host, data) {
  const series = data.runs
    .flatMap((run) => run.rocs.map((one) => ({ name: one.name ? `${run.label}, ${one.name}` : run.label, x: one.far, mean: one.tar })))
    .map((one, i) => ({ ...one, hue: i % 8, dash: i }));
  const label = `Receiver operating characteristic of ${series.map((one) => one.name).join(", ")}`;
  const chart = new Chart(host, { label, x: "false accepts, %", unit: "%" }, series);
  chart.tools.append(
    toggle("Log scale", false, (on) => {
      chart.set(series, { logX: on });
    }),
  );
}
