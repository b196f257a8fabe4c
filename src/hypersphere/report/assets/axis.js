// Axes: values to pixels, and round numbers to mark them with.

/** Values to pixels and back. */
function axis([low, high], [start, stop], log) {
  const scale = log ? (v) => Math.log10(Math.max(v, Number.MIN_VALUE)) : (v) => v;
  const [a, b] = [scale(low), scale(high)];
  return {
    to: (value) => start + ((scale(value) - a) / (b - a)) * (stop - start),
    from: (pixel) => ((v) => (log ? 10 ** v : v))(a + ((pixel - start) / (stop - start)) * (b - a)),
    ticks: (count) => (log ? logTicks(low, high) : niceTicks(low, high, count)),
  };
}

function niceTicks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  const fine = Math.log10(high / low) < 2.5;
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const m of fine ? [1, 2, 5] : [1]) {
      const tick = Number((m * 10 ** power).toPrecision(12));
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

function tickText(value) {
  const size = Math.abs(value);
  if (size && (size < 1e-4 || size >= 1e7)) return value.toExponential().replace("-", "−").replace("e+", "e");
  return (size >= 1e4 ? `${Number((value / 1e3).toPrecision(6))}k` : String(value)).replace("-", "−");
}
