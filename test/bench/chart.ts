/** Points of one line, in the units of the axes. */
export interface Series {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  /** Lines about one thing have one color: the place of that thing among all. The line's own unless given. */
  readonly kin?: number;
  readonly dashed?: boolean;
}

export interface LineChart {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly series: readonly Series[];
}

/** Marks on a scale, in rows: one for each thing, a mark for each of those compared. */
export interface MarkChart {
  readonly title: string;
  readonly x: string;
  readonly rows: readonly string[];
  readonly series: readonly {
    readonly name: string;
    readonly values: ReadonlyMap<string, number>;
  }[];
}

/** Readable on light and on dark. */
const COLORS = [
  '#e4572e',
  '#3b82c4',
  '#2a9d74',
  '#9b6bce',
  '#c48a1a',
  '#7a8791',
  '#d05fa2',
  '#4aa8b8',
];
const WIDTH = 760;
const DASH = ' stroke-dasharray="5 4"';
const STYLE = `<style>
    text { font: 12px system-ui, sans-serif; fill: #24292f }
    .title { font-size: 15px; font-weight: 600 }
    .quiet { fill: #57606a }
    .grid { stroke: #8c959f; stroke-opacity: .3; stroke-width: 1 }
    @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .quiet { fill: #9aa4af } }
  </style>`;

/** A line for each series, both axes logarithmic. */
export function lineChart({ title, x, y, series }: LineChart): string {
  const [left, right, top, height] = [64, 270, 44, 300];
  const all = series.flatMap(({ points }) => points);
  const across = logScale(
    all.map(([value]) => value),
    left,
    WIDTH - right,
  );
  const up = logScale(
    all.map(([, value]) => value),
    top + height,
    top,
  );
  // Names in the order in which the lines end, from the top.
  const names = series
    .map(({ name, points, kin, dashed }, index) => {
      const end = up.at(points.at(-1)?.[1] ?? 1);
      return { name, end, color: color(kin ?? index), dash: dashed ? DASH : '' };
    })
    .toSorted((one, other) => one.end - other.end)
    .map((entry, index) => {
      const [px, py] = [WIDTH - right + 16, top + 10 + index * 20];
      return (
        `<line x1="${px}" x2="${px + 24}" y1="${py}" y2="${py}" stroke="${entry.color}" stroke-width="2"${entry.dash}/>` +
        `<text x="${px + 32}" y="${py + 4}">${escaped(entry.name)}</text>`
      );
    });
  return svg(title, top + height + 48, [
    ...up.ticks.map(
      ({ at, label }) =>
        `<line class="grid" x1="${left}" x2="${WIDTH - right}" y1="${n(at)}" y2="${n(at)}"/>` +
        `<text class="quiet" x="${left - 8}" y="${n(at + 4)}" text-anchor="end">${label}</text>`,
    ),
    ...[...new Set(all.map(([value]) => value))].map(
      (value) =>
        `<text class="quiet" x="${n(across.at(value))}" y="${top + height + 18}" text-anchor="middle">${short(value)}</text>`,
    ),
    `<text class="quiet" x="${(left + WIDTH - right) / 2}" y="${top + height + 38}" text-anchor="middle">${escaped(x)}</text>`,
    `<text class="quiet" x="16" y="${top + height / 2}" text-anchor="middle" transform="rotate(-90 16 ${top + height / 2})">${escaped(y)}</text>`,
    ...series.map(({ points, kin, dashed }, index) => {
      const path = points.map(([px, py]) => `${n(across.at(px))},${n(up.at(py))}`).join(' ');
      const stroke = color(kin ?? index);
      const dots = points.map(
        ([px, py]) =>
          `<circle cx="${n(across.at(px))}" cy="${n(up.at(py))}" r="3" fill="${stroke}"/>`,
      );
      return `<polyline points="${path}" fill="none" stroke="${stroke}" stroke-width="2"${dashed ? DASH : ''}/>${dots.join('')}`;
    }),
    ...names,
  ]);
}

/** A mark for each value, on one logarithmic axis. */
export function markChart({ title, x, rows, series }: MarkChart): string {
  const [left, right, rowHeight] = [96, 24, 26];
  const legendRows = Math.ceil(series.length / 2);
  const top = 44 + legendRows * 18 + 8;
  const bottom = top + rows.length * rowHeight;
  const across = logScale(
    series.flatMap(({ values }) => [...values.values()]),
    left,
    WIDTH - right,
  );
  const middle = (row: number) => top + (row + 0.5) * rowHeight;
  return svg(title, bottom + 44, [
    ...series.map(({ name }, index) => {
      const [px, py] = [left + (index % 2) * 320, 44 + Math.floor(index / 2) * 18];
      return `${mark(index, px, py)}<text x="${px + 12}" y="${py + 4}">${escaped(name)}</text>`;
    }),
    ...across.ticks.map(
      ({ at, label }) =>
        `<line class="grid" x1="${n(at)}" x2="${n(at)}" y1="${top}" y2="${bottom}"/>` +
        `<text class="quiet" x="${n(at)}" y="${bottom + 16}" text-anchor="middle">${label}</text>`,
    ),
    `<text class="quiet" x="${(left + WIDTH - right) / 2}" y="${bottom + 36}" text-anchor="middle">${escaped(x)}</text>`,
    ...rows.map(
      (row, index) =>
        `<line class="grid" x1="${left}" x2="${WIDTH - right}" y1="${middle(index)}" y2="${middle(index)}"/>` +
        `<text x="${left - 10}" y="${middle(index) + 4}" text-anchor="end">${escaped(row)}</text>`,
    ),
    // The first series last, so that nothing hides it.
    ...series
      .map(({ values }, index) =>
        rows
          .flatMap((row, place) => {
            const value = values.get(row);
            return value === undefined ? [] : [mark(index, across.at(value), middle(place))];
          })
          .join(''),
      )
      .reverse(),
  ]);
}

function mark(index: number, x: number, y: number): string {
  return index === 0
    ? `<rect x="${n(x - 6)}" y="${n(y - 6)}" width="12" height="12" fill="${color(0)}" transform="rotate(45 ${n(x)} ${n(y)})"/>`
    : `<circle cx="${n(x)}" cy="${n(y)}" r="5" fill="${color(index)}" fill-opacity=".85"/>`;
}

/** A scale with a tick at each power of ten, and at two and five of it where there is room. */
function logScale(values: readonly number[], from: number, to: number) {
  const low = Math.log10(Math.min(...values) / 1.25);
  const high = Math.log10(Math.max(...values) * 1.25);
  const at = (value: number) => from + ((Math.log10(value) - low) / (high - low)) * (to - from);
  const steps = high - low < 3 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++) {
    for (const step of steps) {
      const value = step * 10 ** power;
      const tick = Math.log10(value);
      if (tick >= low && tick <= high) ticks.push({ at: at(value), label: short(value) });
    }
  }
  return { at, ticks };
}

function svg(title: string, height: number, parts: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(title)}">`,
    STYLE,
    `<text class="title" x="16" y="24">${escaped(title)}</text>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n');
}

function color(index: number): string {
  return COLORS[index % COLORS.length] ?? '';
}

function n(value: number): string {
  return value.toFixed(1);
}

/** A number as an axis has it: 0.05, 3, 20k, 4M. */
function short(value: number): string {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(2))}M`;
  if (value >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(3)));
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
