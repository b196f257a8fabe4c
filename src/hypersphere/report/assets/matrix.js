// The confusion matrix: counts or cosines, read with the pointer or the arrow keys.

class Matrix {
  constructor(host, view, label) {
    Object.assign(this, { view, count: view.classes.length, kind: "counts", cell: null });
    const text = `Confusion matrix of ${label}: ${this.count} true classes in rows, predicted classes in columns`;
    this.picture = surface(text, "matrix", (context, width, height) => this.draw(context, width, height));
    this.canvas = this.picture.canvas;
    this.voice = voice();
    const box = h("div", { class: "box square" }, this.canvas);
    this.tip = tooltip(box);
    const kinds = [["counts", "Predictions"], ...(view.cosines ? [["cosines", "Cosines"]] : [])];
    const about = h("p", { class: "note" });
    const explain = () => (about.textContent = this.explanation());
    if (kinds.length > 1) {
      host.append(
        choice("What the cells show", kinds, "counts", (kind) => {
          this.kind = kind;
          explain();
          this.picture.redraw();
        }),
      );
    }
    explain();
    const tools = h("div", { class: "buttons tools" }, saving(() => saveCsv(text, this.table()), () => savePng(text, this.canvas)));
    host.append(tools, about, box, this.voice, h("p", { class: "hint" }, "Rows are true classes, columns predictions. Hover a cell, or focus the picture and use the arrow keys."));
    this.listen();
  }

  table() {
    const { classes, counts, cosines } = this.view;
    const value = (i) => (this.kind === "counts" ? counts[i] : cosines[i] === null ? null : cosines[i] / 1000);
    return [["true class", ...classes], ...classes.map((name, row) => [name, ...classes.map((_, column) => value(row * this.count + column))])];
  }

  explanation() {
    const some = this.count < this.view.of ? ` Of ${this.view.of} classes, the ${this.count} with most errors are shown.` : "";
    return this.kind === "counts"
      ? `The share of each true class that was predicted as each class; the shading grows with its square root, so that rare mistakes show.${some}`
      : `The mean cosine of the features of each true class to each class vector: blue is close, orange is opposite.${some}`;
  }

  listen() {
    const canvas = this.canvas;
    const read = (event) => {
      const [x, y] = inside(event, canvas);
      const [column, row] = [x, y].map((v) => Math.floor((v - this.left) / this.size));
      if (Math.min(row, column) >= 0 && Math.max(row, column) < this.count) this.point([row, column], false);
      else this.leave();
    };
    canvas.addEventListener("pointermove", read);
    canvas.addEventListener("pointerdown", read);
    canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.leave());
    closeOnTouch(canvas, () => this.leave());
    canvas.addEventListener("blur", () => this.leave());
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      this.point(this.cell ? this.cell.map((v, i) => clamp(v + step[i], 0, this.count - 1)) : [0, 0], true);
    });
  }

  leave() {
    this.cell = null;
    this.tip.hide();
    this.picture.redraw();
  }

  point(cell, aloud) {
    this.cell = cell;
    const [row, column] = cell;
    const { classes, counts, totals, cosines } = this.view;
    const i = row * this.count + column;
    const share = totals[row] ? ` (${format((100 * counts[i]) / totals[row], "%")})` : "";
    const lines = [`${classes[row]} → ${classes[column]}`, `${counts[i]} of ${totals[row]}${share}`];
    if (cosines) lines.push(`mean cosine ${cosines[i] === null ? "–" : format(cosines[i] / 1000)}`);
    this.tip.show(this.left + (column + 1) * this.size, this.left + (row + 0.5) * this.size, ...lines.map((text, n) => h("div", { class: n ? "" : "head" }, text)));
    if (aloud) this.voice.textContent = lines.join(", ");
    this.picture.redraw();
  }

  draw(context, width) {
    const longest = Math.max(...this.view.classes.map((name) => context.measureText(short(name)).width));
    const named = (width - 20) / this.count >= 11;
    this.left = named ? clamp(longest + 12, 18, width * 0.28) : 2;
    this.size = (width - this.left - 2) / this.count;
    this.view.counts.forEach((_, i) => this.drawCell(context, Math.floor(i / this.count), i % this.count, i));
    if (this.size >= 11) this.drawNames(context);
    if (!this.cell) return;
    context.strokeStyle = ink("ink");
    context.lineWidth = 2;
    context.strokeRect(this.left + this.cell[1] * this.size, this.left + this.cell[0] * this.size, this.size, this.size);
  }

  drawCell(context, row, column, i) {
    const { counts, totals, cosines } = this.view;
    const gap = this.size > 8 ? 1 : 0;
    const box = [this.left + column * this.size, this.left + row * this.size, this.size - gap, this.size - gap];
    context.fillStyle = ink("line");
    context.globalAlpha = 0.35;
    context.fillRect(...box);
    const value = this.kind === "counts" ? (totals[row] ? counts[i] / totals[row] : 0) : (cosines[i] ?? 0) / 1000;
    const right = this.kind === "counts" ? row === column : value >= 0;
    context.fillStyle = hue(right ? 0 : 1);
    const strength = this.kind === "counts" ? Math.sqrt(value) : Math.abs(value);
    context.globalAlpha = clamp(strength, 0, 1);
    context.fillRect(...box);
    context.globalAlpha = 1;
    const text = this.kind === "counts" ? (counts[i] ? String(counts[i]) : "") : cosines[i] === null ? "" : value.toFixed(2).replace("-", "−").replace("0.", ".");
    if (this.size < 25 || !text) return;
    context.font = `${Math.min(12, this.size / 2.6)}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = strength > 0.55 ? "#fff" : ink("ink");
    context.fillText(text, box[0] + box[2] / 2, box[1] + box[3] / 2);
    context.font = FONT;
  }

  drawNames(context) {
    context.fillStyle = ink("soft");
    context.font = `${clamp(this.size - 2, 9, 12)}px system-ui, sans-serif`;
    this.view.classes.forEach((name, i) => {
      const middle = this.left + (i + 0.5) * this.size;
      const text = fitted(context, short(name), this.left - 8);
      context.textAlign = "right";
      context.textBaseline = "middle";
      context.fillText(text, this.left - 6, middle);
      context.save();
      context.translate(middle, this.left - 6);
      if (context.measureText(text).width > this.size - 2) {
        context.rotate(-Math.PI / 2);
        context.textAlign = "left";
      } else {
        context.textAlign = "center";
        context.textBaseline = "bottom";
      }
      context.fillText(text, 0, 0);
      context.restore();
    });
    context.font = FONT;
  }
}

const short = (name) => (name.length > 16 ? `${name.slice(0, 15)}…` : name);

function fitted(context, text, room) {
  while (text.length > 2 && context.measureText(text).width > room) text = `${text.slice(0, -2)}…`;
  return text;
}
