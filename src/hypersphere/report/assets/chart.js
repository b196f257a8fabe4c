// A chart of lines with bands: hover and arrow keys read values, drag, wheel and + − zoom, the legend hides lines.

const MARGIN = { left: 56, right: 14, top: 12, bottom: 40 };

class Chart {
  /** options: {label, x, y, unit, logX}; series: [{name, hue, dash, x, mean, low, high, each}]. */
  constructor(host, options, series = []) {
    this.options = options;
    this.hidden = new Set();
    this.logY = false;
    this.cursor = null;
    this.drag = null;
    this.picture = surface(options.label, "chart", (context, width, height) => this.draw(context, width, height));
    this.canvas = this.picture.canvas;
    this.voice = voice();
    this.legend = h("div", { class: "buttons legend", role: "group", "aria-label": "Lines shown" });
    this.numbers = h("details", { ontoggle: () => this.fillNumbers() }, h("summary", {}, "Numbers of this chart"));
    const box = h("div", { class: "box" }, this.canvas);
    this.tip = tooltip(box);
    this.tools = h(
      "div",
      { class: "buttons tools", role: "group", "aria-label": "Zoom" },
      button("+", () => this.zoom(0.5), { "aria-label": "Zoom in" }),
      button("−", () => this.zoom(2), { "aria-label": "Zoom out" }),
      button("Reset zoom", () => this.reset()),
      saving(
        () => saveCsv(this.options.label, this.table()),
        () => savePng(this.options.label, this.canvas, this.shown),
      ),
    );
    host.append(this.tools, box, this.legend, this.voice, this.numbers);
    this.listen();
    this.set(series);
  }

  set(series, options = {}) {
    Object.assign(this.options, options);
    this.series = series;
    this.canvas.setAttribute("aria-label", this.options.label);
    const every = series.flatMap((one) => one.x);
    this.full = [Math.min(...every, Infinity), Math.max(...every, -Infinity)];
    if (this.full[0] === this.full[1]) this.full = [this.full[0] - 1, this.full[1] + 1];
    if (this.options.logX) this.full[0] = Math.min(...every.filter((x) => x > 0), Infinity);
    this.legend.replaceChildren(...(series.length > 1 ? series.map((one) => this.key(one)) : []));
    this.cursor = null;
    this.tip.hide();
    this.reset();
    this.fillNumbers();
  }

  key(one) {
    const swatch = lineSample(one);
    const element = toggle("", !this.hidden.has(one.name), (on) => {
      if (on) this.hidden.delete(one.name);
      else this.hidden.add(one.name);
      this.picture.redraw();
    });
    element.append(swatch, " ", one.name);
    return element;
  }

  get shown() {
    return this.series.filter((one) => !this.hidden.has(one.name));
  }

  // Zoom ------------------------------------------------------------------------------------------

  reset() {
    this.range = [...this.full];
    this.mark();
  }

  zoom(factor, centre = null) {
    const scale = this.options.logX ? Math.log10 : (v) => v;
    const back = this.options.logX ? (v) => 10 ** v : (v) => v;
    const [low, high] = this.range.map(scale);
    const middle = centre === null ? (this.cursor === null ? (low + high) / 2 : scale(this.cursor)) : scale(centre);
    this.setRange(back(middle - (middle - low) * factor), back(middle + (high - middle) * factor));
  }

  setRange(low, high) {
    const [first, last] = this.full;
    low = clamp(low, first, last);
    high = clamp(high, first, last);
    if (!(high > low) || (high - low) / (last - first) < 1e-6) return;
    this.range = [low, high];
    this.mark();
  }

  mark() {
    const zoomed = this.range[0] > this.full[0] || this.range[1] < this.full[1];
    this.canvas.dataset.zoomed = String(zoomed);
    this.picture.redraw();
  }

  // Input -----------------------------------------------------------------------------------------

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) {
        this.drag = [inside(event, canvas)[0], inside(event, canvas)[0]];
        canvas.setPointerCapture(event.pointerId);
      } else this.hover(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.drag) {
        this.drag[1] = inside(event, canvas)[0];
        this.picture.redraw();
      } else this.hover(event);
    });
    canvas.addEventListener("pointerup", () => {
      if (this.drag && Math.abs(this.drag[1] - this.drag[0]) > 6) {
        this.setRange(...this.drag.map((x) => this.toX(x)).sort((a, b) => a - b));
      }
      this.drag = null;
      this.picture.redraw();
    });
    canvas.addEventListener("pointercancel", () => (this.drag = null));
    const leave = () => {
      this.cursor = null;
      this.tip.hide();
      this.picture.redraw();
    };
    canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "mouse" || (document.activeElement === canvas && this.byKey)) return; // a tapped tip stays
      leave();
    });
    closeOnTouch(canvas, leave);
    canvas.addEventListener("dblclick", () => this.reset());
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return; // the page scrolls
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.toX(inside(event, canvas)[0]));
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.press(event));
    canvas.addEventListener("blur", () => {
      this.byKey = false;
      this.cursor = null;
      this.tip.hide();
      this.picture.redraw();
    });
  }

  press(event) {
    const stops = this.stops();
    const last = stops.length - 1;
    const here = this.cursor === null ? -1 : stops.indexOf(this.cursor);
    const stride = event.shiftKey ? 10 : 1;
    const to = { ArrowRight: clamp(here + stride, 0, last), ArrowLeft: clamp(here < 0 ? last : here - stride, 0, last), Home: 0, End: last }[event.key];
    if (to !== undefined && last >= 0) this.point(stops[to], true);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0" || event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
  }

  hover(event) {
    if (!this.toX) return; // nothing was drawn
    const x = this.toX(inside(event, this.canvas)[0]);
    const stops = this.stops();
    if (!stops.length) return;
    const distance = (stop) => Math.abs(this.fromX(stop) - this.fromX(x));
    this.point(stops.reduce((best, stop) => (distance(stop) < distance(best) ? stop : best)), false);
  }

  /** Every x of the visible lines in the window. */
  stops() {
    const every = new Set(this.shown.flatMap((one) => one.x));
    return [...every].filter((x) => x >= this.range[0] && x <= this.range[1]).sort((a, b) => a - b);
  }

  point(x, aloud) {
    this.cursor = x;
    this.byKey = aloud;
    const { unit = "" } = this.options;
    const rows = this.shown
      .map((one) => [one, nearest(one, x)])
      .filter(([, i]) => i !== null)
      .map(([one, i]) => ({ one, value: one.mean[i], low: one.low?.[i], high: one.high?.[i] }));
    const head = `${this.options.x} ${format(x)}`;
    const spread = (row) => (row.low !== undefined && row.high > row.low ? ` (${format(row.low)} to ${format(row.high)})` : "");
    const lines = rows.map((row) =>
      h("div", {}, lineSample(row.one), ` ${row.one.name} `, h("b", {}, format(row.value, unit)), spread(row)),
    );
    const y = rows.length ? this.fromY(rows[0].value) : 40;
    this.tip.show(this.fromX(x), Number.isFinite(y) ? y : 40, h("div", { class: "head" }, head), ...lines);
    if (aloud) this.voice.textContent = `${head}: ${rows.map((row) => `${row.one.name} ${format(row.value, unit)}${spread(row)}`).join("; ")}`;
    this.picture.redraw();
  }

  // Drawing ---------------------------------------------------------------------------------------

  draw(context, width, height) {
    const plot = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
    const vertical = this.verticalRange();
    this.wide = width;
    if (!Number.isFinite(this.full[0]) || !vertical) {
      context.fillStyle = ink("soft");
      context.fillText("No finite values to draw.", MARGIN.left, height / 2);
      return;
    }
    const up = axis(vertical, [plot.bottom, plot.top], this.logY);
    const marks = up.ticks(Math.max(3, (plot.bottom - plot.top) / 55)).map((tick) => tickText(tick) + (this.options.unit ?? ""));
    plot.left = Math.max(plot.left, ...marks.map((text) => Math.ceil(context.measureText(text).width) + 14)); // none is cut off
    const across = axis(this.range, [plot.left, plot.right], this.options.logX);
    Object.assign(this, { fromX: across.to, toX: across.from, fromY: up.to });
    this.drawGrid(context, plot, across, up);
    context.save();
    context.beginPath();
    context.rect(plot.left, plot.top - 2, plot.right - plot.left, plot.bottom - plot.top + 4);
    context.clip();
    for (const one of this.shown) drawBand(context, one, across, up);
    for (const one of this.shown) drawLine(context, one, across, up);
    this.drawCursor(context, plot, across, up);
    context.restore();
  }

  /** The values in the window, with a little air. */
  verticalRange() {
    const values = [];
    for (const one of this.shown) {
      one.x.forEach((x, i) => {
        const next = one.x[i + 1] ?? x;
        const before = one.x[i - 1] ?? x;
        if (next < this.range[0] || before > this.range[1]) return;
        values.push(one.mean[i], one.low?.[i], one.high?.[i]);
      });
    }
    const known = values.filter((v) => Number.isFinite(v) && v !== null && (!this.logY || v > 0));
    if (!known.length) return null;
    let low = Math.min(...known);
    let high = Math.max(...known);
    if (this.logY) return low === high ? [low / 2, high * 2] : [low / 1.1, high * 1.1];
    const air = high === low ? Math.abs(high) * 0.05 || 1 : (high - low) * 0.06;
    if (this.options.unit === "%") return [Math.max(low - air, Math.min(low, 0)), Math.min(high + air, Math.max(high, 100))];
    return [low >= 0 && low - air < 0 ? 0 : low - air, high + air];
  }

  drawGrid(context, plot, across, up) {
    context.lineWidth = 1;
    context.strokeStyle = ink("line");
    context.fillStyle = ink("soft");
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const tick of up.ticks(Math.max(3, (plot.bottom - plot.top) / 55))) {
      const y = Math.round(up.to(tick)) + 0.5;
      line(context, plot.left, y, plot.right, y);
      context.fillText(tickText(tick) + (this.options.unit ?? ""), plot.left - 8, y);
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const tick of across.ticks(Math.max(2, (plot.right - plot.left) / 95))) {
      if (this.options.x === "step" && !Number.isInteger(tick)) continue;
      const x = clamp(across.to(tick), plot.left, plot.right);
      line(context, Math.round(x) + 0.5, plot.bottom, Math.round(x) + 0.5, plot.bottom + 4);
      const half = context.measureText(tickText(tick)).width / 2 + 1;
      context.fillText(tickText(tick), clamp(x, half, this.wide - half), plot.bottom + 7);
    }
    context.fillText(this.options.x, (plot.left + plot.right) / 2, plot.bottom + 24);
  }

  drawCursor(context, plot, across, up) {
    if (this.drag && Math.abs(this.drag[1] - this.drag[0]) > 6) {
      context.fillStyle = ink("accent");
      context.globalAlpha = 0.15;
      context.fillRect(this.drag[0], plot.top, this.drag[1] - this.drag[0], plot.bottom - plot.top);
      context.globalAlpha = 1;
    }
    if (this.cursor === null) return;
    context.strokeStyle = ink("soft");
    context.lineWidth = 1;
    context.setLineDash([3, 3]);
    line(context, across.to(this.cursor), plot.top, across.to(this.cursor), plot.bottom);
    context.setLineDash([]);
    for (const one of this.shown) {
      const i = nearest(one, this.cursor);
      if (i === null) continue;
      context.fillStyle = hue(one.hue);
      context.strokeStyle = ink("card");
      context.lineWidth = 2;
      context.beginPath();
      context.arc(across.to(one.x[i]), up.to(one.mean[i]), 4.5, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
    }
  }

  /** Every number of the lines that are shown, one line for each x. */
  table() {
    const every = [...new Set(this.shown.flatMap((one) => one.x))].sort((a, b) => a - b);
    const at = (values, one, x) => values?.[one.x.indexOf(x)] ?? null;
    const columns = this.shown.flatMap((one) => [
      [one.name, (x) => at(one.mean, one, x)],
      ...(one.low ? [[`${one.name}, lowest`, (x) => at(one.low, one, x)], [`${one.name}, highest`, (x) => at(one.high, one, x)]] : []),
      ...(one.each ?? []).map((values, i) => [`${one.name}, ${i + 1}`, (x) => at(values, one, x)]),
    ]);
    return [[this.options.x, ...columns.map(([name]) => name)], ...every.map((x) => [x, ...columns.map(([, value]) => value(x))])];
  }

  fillNumbers() {
    if (!this.numbers.open) return;
    const stops = this.stops();
    const some = stops.filter((_, i) => i % Math.ceil(stops.length / 25) === 0 || i === stops.length - 1);
    const at = (one, x) => (one.x.includes(x) ? format(one.mean[one.x.indexOf(x)]) : "–");
    const rows = some.map((x) => [format(x), ...this.series.map((one) => at(one, x))]);
    this.numbers.replaceChildren(this.numbers.firstChild, numbersTable(this.options.label, [this.options.x, ...this.series.map((one) => one.name)], rows));
  }
}

/** Index of the finite value of a line that is closest to x, or null. */
function nearest(one, x) {
  let best = null;
  one.x.forEach((at, i) => {
    if (Number.isFinite(one.mean[i]) && one.mean[i] !== null && (best === null || Math.abs(at - x) < Math.abs(one.x[best] - x))) best = i;
  });
  return best;
}

function line(context, x1, y1, x2, y2) {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

function drawBand(context, one, across, up) {
  if (!one.low) return;
  const known = one.x.map((_, i) => i).filter((i) => Number.isFinite(one.low[i]) && one.low[i] !== null);
  if (!known.length) return;
  context.fillStyle = hue(one.hue);
  context.globalAlpha = 0.16;
  context.beginPath();
  known.forEach((i, n) => context[n ? "lineTo" : "moveTo"](across.to(one.x[i]), up.to(one.high[i])));
  known.reverse().forEach((i) => context.lineTo(across.to(one.x[i]), up.to(one.low[i])));
  context.fill();
  context.globalAlpha = 1;
}

function drawLine(context, one, across, up) {
  const stroke = (values, thickness, alpha) => {
    context.strokeStyle = hue(one.hue);
    context.lineWidth = thickness;
    context.globalAlpha = alpha;
    context.lineJoin = "round";
    context.setLineDash(DASHES[(one.dash ?? 0) % DASHES.length]);
    context.beginPath();
    let pen = false; // what is not finite leaves a gap
    values.forEach((value, i) => {
      const y = value === null || value === undefined ? NaN : up.to(value);
      if (!Number.isFinite(y)) {
        pen = false;
        return;
      }
      context[pen ? "lineTo" : "moveTo"](across.to(one.x[i]), y);
      pen = true;
    });
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  };
  for (const values of one.each ?? []) stroke(values, 1, 0.6);
  stroke(one.mean, 2, 1);
  if (one.x.length === 1) {
    context.fillStyle = hue(one.hue);
    context.fillRect(across.to(one.x[0]) - 3, up.to(one.mean[0]) - 3, 6, 6);
  }
}
