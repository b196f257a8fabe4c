// A sphere of features that turns with the mouse, a finger or the arrow keys; a plane for features of two dimensions.

const SHAPES = 5;

class Sphere {
  constructor(host, view, label, compact = false) {
    Object.assign(this, { host, view, label, compact, plane: view.kind === "plane" });
    this.on = view.classes.map(() => true);
    this.mistakes = false;
    this.vectors = Boolean(view.vectors);
    this.dot = view.labels.length > 800 ? 1.9 : 2.8;
    this.rings = Boolean(view.wrong) && view.wrong.reduce((a, b) => a + b, 0) < 0.3 * view.labels.length; // more would hide the rest
    this.reset(true);
    const text = `${this.plane ? "Two-dimensional features" : "Features on a sphere"} of ${label}, ${view.labels.length} test samples in ${view.classes.length} classes`;
    this.picture = surface(text, "sphere", (context, width, height) => this.draw(context, width, height));
    this.canvas = this.picture.canvas;
    this.voice = voice();
    const box = h("div", { class: "box" }, this.canvas);
    this.tip = tooltip(box);
    const stage = compact ? box : h("div", { class: "stage" }, box, this.filter());
    host.append(this.buttons(text), stage, this.voice, ...(compact ? [] : [h("p", { class: "note" }, view.note), h("p", { class: "hint" }, this.hint())]));
    if (view.sprite) {
      this.sprite = new Image();
      this.sprite.src = view.sprite.src;
    }
    this.listen();
  }

  hint() {
    const keys = this.plane ? "Drag or use the arrow keys to move it" : "Drag it, or focus it and use the arrow keys, to turn it";
    return `${keys}; + and − zoom, 0 puts it back. With a finger, drag it sideways and tap a point. ${this.rings ? "Rings mark wrong predictions." : ""}`;
  }

  /** Every point that is shown: coordinates, class, prediction and angle. */
  table() {
    const { classes, labels, predicted, degrees, points } = this.view;
    const names = this.plane ? ["x", "y"] : ["x", "y", "z"];
    const rows = labels.map((_, i) => i).filter((i) => this.visible(i));
    return [[...names, "class", "predicted", "degrees"], ...rows.map((i) => [...this.at(points, i), classes[labels[i]], predicted?.[i] ?? null, degrees?.[i] ?? null])];
  }

  buttons(text) {
    const tools = h(
      "div",
      { class: "buttons tools", role: "group", "aria-label": "View" },
      button("+", () => this.scale(1.25), { "aria-label": "Zoom in" }),
      button("−", () => this.scale(0.8), { "aria-label": "Zoom out" }),
      button("Reset view", () => this.reset()),
    );
    if (!this.plane) tools.append((this.spinner = toggle("Spin", false, (on) => this.spin(on))));
    if (this.view.vectors) tools.append(toggle("Class vectors", true, (on) => this.change(() => (this.vectors = on))));
    if (this.view.wrong?.some(Boolean)) tools.append(toggle("Mistakes only", false, (on) => this.change(() => (this.mistakes = on))));
    const shown = () => this.view.classes.map((name, i) => ({ name, hue: i })).filter((_, i) => this.on[i]);
    tools.append(
      saving(
        () => saveCsv(text, this.table()),
        () => savePng(text, this.canvas, shown().length <= 20 ? shown() : []),
      ),
    );
    return tools;
  }

  filter() {
    const chips = this.view.classes.map((name, i) => {
      const chip = toggle("", true, (on) => this.change(() => (this.on[i] = on)), { class: "chip" });
      chip.append(h("span", { class: `swatch c${i % 8} s${Math.floor(i / 8) % SHAPES}`, "aria-hidden": "true" }), ` ${name}`);
      return chip;
    });
    const all = (value) => {
      chips.forEach((chip) => chip.set(value, true));
      this.change(() => this.on.fill(value));
    };
    return h(
      "div",
      { class: "classes", role: "group", "aria-label": "Classes shown" },
      h("div", { class: "buttons" }, button("All classes", () => all(true)), button("None", () => all(false))),
      h("div", { class: "chips" }, ...chips),
    );
  }

  change(what) {
    what();
    this.tip.hide();
    const count = this.view.labels.filter((_, i) => this.visible(i)).length;
    this.voice.textContent = `${count} points shown`;
    this.picture.redraw();
  }

  visible(i) {
    return this.on[this.view.labels[i]] && (!this.mistakes || Boolean(this.view.wrong[i]));
  }

  // Turning ---------------------------------------------------------------------------------------

  reset(first = false) {
    this.size = 1;
    this.shift = [0, 0];
    this.turned = multiply(about(0, 0.35), about(1, -0.5));
    if (!first) this.turn(0, 0);
  }

  turn(yaw, pitch) {
    this.turned = multiply(multiply(about(0, pitch), about(1, yaw)), this.turned);
    this.tip?.hide();
    this.picture.redraw();
    this.partner?.follow(this);
  }

  /** Stand as another sphere does. */
  follow(other) {
    Object.assign(this, { turned: other.turned, size: other.size });
    this.tip.hide();
    this.picture.redraw();
  }

  scale(factor) {
    this.size = clamp(this.size * factor, 0.5, 8);
    this.picture.redraw();
    this.partner?.follow(this);
  }

  spin(on) {
    this.spinning = on;
    const frame = () => {
      if (!this.spinning || !this.canvas.isConnected) return;
      this.turn(0.006, 0);
      requestAnimationFrame(frame);
    };
    if (on) frame();
  }

  /** By mouse, finger or keys: the sphere turns, the plane moves. */
  push(dx, dy) {
    if (this.plane) {
      this.shift = [this.shift[0] + dx, this.shift[1] + dy];
      this.tip.hide();
      this.picture.redraw();
    } else this.turn(dx / this.radius, dy / this.radius);
  }

  listen() {
    const canvas = this.canvas;
    let last = null;
    let way = 0; // how far a finger has moved: a tap asks for the tip
    canvas.addEventListener("pointerdown", (event) => {
      last = [event.clientX, event.clientY];
      way = 0;
      this.spinner?.set(false);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!last) return this.hover(event);
      way += Math.hypot(event.clientX - last[0], event.clientY - last[1]);
      if (event.pointerType !== "mouse" && way < 6) return;
      this.push(event.clientX - last[0], event.clientY - last[1]);
      last = [event.clientX, event.clientY];
    });
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, (event) => {
        last = null;
        if (end === "pointerup" && event.pointerType !== "mouse" && way < 6) this.hover(event, 22);
      });
    }
    canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.tip.hide());
    closeOnTouch(canvas, () => this.tip.hide());
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.scale(event.deltaY > 0 ? 0.9 : 1.1);
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => {
      const step = this.radius * (event.shiftKey ? 0.5 : 0.12);
      const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
      if (moves[event.key]) this.push(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.scale(1.25);
      else if (event.key === "-") this.scale(0.8);
      else if (event.key === "0") this.reset();
      else return;
      event.preventDefault();
    });
  }

  hover(event, reach = 10) {
    const [x, y] = inside(event, this.canvas);
    let best = null;
    for (const point of this.placed ?? []) {
      const distance = Math.hypot(point.x - x, point.y - y);
      if (point.z > -0.05 && distance < reach && (best === null || distance < best.distance)) best = { ...point, distance };
    }
    if (!best) return this.tip.hide();
    const { classes, labels, predicted, wrong, degrees, to } = this.view;
    const lines = [h("div", { class: "head" }, classes[labels[best.i]])];
    if (wrong?.[best.i]) lines.push(h("div", {}, `predicted ${predicted[best.i]}`));
    if (degrees) lines.push(h("div", {}, `${degrees[best.i].toFixed(1)}° from ${to}`));
    const shown = this.thumbnail(best.i);
    this.tip.show(best.x, best.y, ...(shown ? [shown] : []), ...lines);
    this.voice.textContent = lines.map((one) => one.textContent).join(", ");
  }

  /** The picture of a sample, cut from the sheet that the page carries. */
  thumbnail(i) {
    if (!this.sprite?.complete || !this.sprite.naturalWidth) return null;
    const { width, height, columns } = this.view.sprite;
    const canvas = h("canvas", { class: "thumbnail", width, height, role: "img", "aria-label": `Test sample of ${this.view.classes[this.view.labels[i]]}` });
    const from = [(i % columns) * width, Math.floor(i / columns) * height];
    canvas.getContext("2d").drawImage(this.sprite, ...from, width, height, 0, 0, width, height);
    return canvas;
  }

  // Drawing ---------------------------------------------------------------------------------------

  draw(context, width, height) {
    this.radius = (Math.min(width, height) / 2 - 16) * (this.plane ? 1 : Math.min(this.size, 8));
    const middle = [width / 2 + this.shift[0], height / 2 + this.shift[1]];
    this.project = this.plane
      ? ([x, y]) => ({ x: middle[0] + x * this.radius * this.size, y: middle[1] - y * this.radius * this.size, z: 1 })
      : (v) => {
          const [x, y, z] = apply(this.turned, v);
          return { x: middle[0] + x * this.radius, y: middle[1] - y * this.radius, z };
        };
    this.drawGlobe(context, middle);
    this.placed = this.view.labels.flatMap((label, i) => (this.visible(i) ? [{ i, label, ...this.project(this.at(this.view.points, i)) }] : []));
    this.placed.sort((a, b) => a.z - b.z);
    for (const point of this.placed) {
      const front = point.z >= 0;
      context.globalAlpha = this.plane ? 0.75 : front ? 0.55 + 0.35 * point.z : 0.16;
      const size = this.dot * (this.plane ? 1.1 : 1 + 0.35 * point.z);
      if (this.rings && this.view.wrong[point.i]) ring(context, point, size + 2.5, ink("ink"));
      context.fillStyle = hue(point.label);
      shape(context, Math.floor(point.label / 8) % SHAPES, point.x, point.y, size);
    }
    context.globalAlpha = 1;
    if (this.vectors) this.drawVectors(context, middle);
  }

  at(flat, i) {
    const n = this.plane ? 2 : 3;
    return Array.from({ length: n }, (_, j) => flat[n * i + j] / 1000);
  }

  drawGlobe(context, [x, y]) {
    context.lineWidth = 1;
    context.strokeStyle = ink("faint");
    if (this.plane) {
      context.beginPath();
      context.arc(x, y, this.radius * this.size, 0, 2 * Math.PI);
      context.stroke();
      context.strokeStyle = ink("line");
      line(context, x - this.radius * this.size, y, x + this.radius * this.size, y);
      line(context, x, y - this.radius * this.size, x, y + this.radius * this.size);
      return;
    }
    const glow = context.createRadialGradient(x - this.radius * 0.35, y - this.radius * 0.4, this.radius * 0.1, x, y, this.radius);
    glow.addColorStop(0, ink("card"));
    glow.addColorStop(1, ink("page"));
    context.fillStyle = glow;
    context.beginPath();
    context.arc(x, y, this.radius, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
    for (const circle of GRATICULE) {
      for (const front of [false, true]) {
        context.strokeStyle = ink(front ? "faint" : "line");
        context.globalAlpha = front ? 0.7 : 0.5;
        context.beginPath();
        let pen = false;
        for (const v of circle) {
          const p = this.project(v);
          if (p.z >= 0 === front) context[pen ? "lineTo" : "moveTo"](p.x, p.y);
          pen = p.z >= 0 === front;
        }
        context.stroke();
      }
    }
    context.globalAlpha = 1;
  }

  drawVectors(context, [x, y]) {
    const names = this.on.filter(Boolean).length <= 20;
    const taken = [];
    const ends = this.view.classes.map((name, i) => ({ name, i, ...this.project(this.at(this.view.vectors, i)) }));
    for (const end of ends.sort((a, b) => a.z - b.z)) {
      if (!this.on[end.i]) continue;
      context.globalAlpha = end.z >= 0 ? 1 : 0.3;
      context.strokeStyle = hue(end.i);
      context.lineWidth = 1.5;
      if (names) line(context, x, y, end.x, end.y);
      context.fillStyle = hue(end.i);
      shape(context, Math.floor(end.i / 8) % SHAPES, end.x, end.y, names ? 6 : 4.5);
      ring(context, end, names ? 7 : 6, ink("card"));
    }
    context.globalAlpha = 1;
    if (!names) return;
    context.font = `600 ${FONT}`;
    context.textBaseline = "middle";
    for (const end of ends.reverse()) {
      if (!this.on[end.i] || end.z < 0) continue;
      const text = end.name.length > 14 ? `${end.name.slice(0, 13)}…` : end.name;
      const wide = context.measureText(text).width;
      const room = context.canvas.clientWidth;
      const left = clamp(end.x >= x ? end.x + 10 : end.x - 10 - wide, 2, Math.max(room - wide - 2, 2));
      const box = [left - 2, end.y - 8, left + wide + 2, end.y + 8];
      if (taken.some((t) => box[0] < t[2] && box[2] > t[0] && box[1] < t[3] && box[3] > t[1])) continue;
      taken.push(box);
      context.lineWidth = 4;
      context.lineJoin = "round";
      context.strokeStyle = ink("card");
      context.strokeText(text, left, end.y);
      context.fillStyle = ink("ink");
      context.fillText(text, left, end.y);
    }
    context.font = FONT;
  }
}

const GRATICULE = (() => {
  const circles = [];
  const around = (point) => circles.push(Array.from({ length: 73 }, (_, i) => point((i * Math.PI) / 36)));
  for (let degree = -60; degree <= 60; degree += 30) {
    const a = (degree * Math.PI) / 180;
    around((t) => [Math.cos(a) * Math.cos(t), Math.sin(a), Math.cos(a) * Math.sin(t)]);
  }
  for (let degree = 0; degree < 180; degree += 30) {
    const a = (degree * Math.PI) / 180;
    around((t) => [Math.cos(a) * Math.cos(t), Math.sin(t), Math.sin(a) * Math.cos(t)]);
  }
  return circles;
})();

/** The rotation by an angle about axis 0 (across) or 1 (up), as rows. */
function about(which, angle) {
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  return which === 0 ? [[1, 0, 0], [0, c, -s], [0, s, c]] : [[c, 0, s], [0, 1, 0], [-s, 0, c]];
}

const apply = (m, v) => m.map((row) => row[0] * v[0] + row[1] * v[1] + row[2] * v[2]);
const multiply = (a, b) => a.map((row) => [0, 1, 2].map((j) => row[0] * b[0][j] + row[1] * b[1][j] + row[2] * b[2][j]));

function ring(context, { x, y }, radius, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1.25;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.stroke();
}

/** Circle, square, triangle, diamond, cross: more classes than colours differ by shape. */
function shape(context, kind, x, y, size) {
  context.beginPath();
  if (kind === 0) context.arc(x, y, size, 0, 2 * Math.PI);
  else if (kind === 1) context.rect(x - size, y - size, 2 * size, 2 * size);
  else if (kind === 4) {
    context.rect(x - 1.4 * size, y - size / 2, 2.8 * size, size);
    context.rect(x - size / 2, y - 1.4 * size, size, 2.8 * size);
  } else {
    const corners = kind === 2 ? [[0, -1.3], [1.2, 0.9], [-1.2, 0.9]] : [[0, -1.4], [1.2, 0], [0, 1.4], [-1.2, 0]];
    corners.forEach(([dx, dy], i) => context[i ? "lineTo" : "moveTo"](x + dx * size, y + dy * size));
    context.closePath();
  }
  context.fill();
}
