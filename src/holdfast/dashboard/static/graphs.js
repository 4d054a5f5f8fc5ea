// Graphs over time with one cursor, marks of what happened, and a table that says the same.

import {clock, day, html, useEffect, useRef, useState} from './lib.js';
import uPlot from './vendor/uplot.mjs';

const together = uPlot.sync('holdfast');

// The colour that a class of ours has now: canvases know no variables.
function colour(token) {
  const probe = document.createElement('span');
  probe.style.color = `var(--${token})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const hours = (seconds) => `${clock(seconds * 1000).slice(0, 5)}`;
const days = (seconds) => `${day(seconds * 1000).slice(5)} ${clock(seconds * 1000).slice(0, 5)}`;

function marksOf(marks) {
  return {
    hooks: {
      draw: (plot) => {
        const {ctx, bbox} = plot;
        ctx.save();
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
        for (const mark of marks) {
          const x = plot.valToPos(mark.at, 'x', true);
          if (x < bbox.left || x > bbox.left + bbox.width) continue;
          ctx.strokeStyle = colour(mark.level || 'dim');
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        }
        ctx.restore();
      },
    },
  };
}

export function Graph({name, at, lines, written, marks = [], from, to, height = 160}) {
  const place = useRef(null);
  const [under, set] = useState(null);
  const [theme, turn] = useState(0);
  useEffect(() => {
    const changed = () => turn((n) => n + 1);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', changed);
    addEventListener('holdfast-theme', changed);
    return () => {
      scheme.removeEventListener('change', changed);
      removeEventListener('holdfast-theme', changed);
    };
  }, []);
  useEffect(() => {
    const dim = colour('dim');
    const line = colour('line');
    const long = to - from > 36 * 3600;
    const axis = {stroke: dim, grid: {stroke: line, width: 1}, ticks: {stroke: line, width: 1}, font: '11px system-ui, sans-serif'};
    const plot = new uPlot({
      width: place.current.clientWidth || 300, height, pxAlign: 0, legend: {show: false}, plugins: [marksOf(marks)],
      cursor: {sync: {key: together.key}, y: false, points: {size: 6}},
      scales: {x: {time: true, range: () => [from, to]}, y: {range: (u, low, high) => [0, high > 0 ? high * 1.1 : 1]}},
      axes: [{...axis, size: 28, space: long ? 96 : 56, values: (u, ticks) => ticks.map(long ? days : hours)},
        {...axis, size: 56, space: 28, values: (u, ticks) => ticks.map((each) => written(each))}],
      series: [{}, ...lines.map(({label, tone}) => ({label, stroke: colour(tone), width: 1.5, spanGaps: false,
        fill: lines.length === 1 ? colour(tone).replace('rgb(', 'rgba(').replace(')', ', .12)') : undefined, points: {show: at.length < 3}}))],
      hooks: {setCursor: [(u) => set(u.cursor.idx === null || u.cursor.idx === undefined ? null : u.cursor.idx)]},
    }, [at, ...lines.map((each) => each.values)], place.current);
    const sized = new ResizeObserver(() => plot.setSize({width: place.current?.clientWidth || 300, height}));
    sized.observe(place.current);
    return () => {
      sized.disconnect();
      plot.destroy();
    };
  }, [at, lines.map((each) => each.values).flat().length, theme, from, to, marks.length]);
  const shown = under !== null && under < at.length ? under : null;
  const value = (values) => (shown !== null ? values[shown] : values.findLast((each) => each !== null && each !== undefined));
  return html`<figure class="graph" aria-label=${name}><figcaption><span>${name}</span>
    <span>${at.length > 0 && lines.map((each) => html` ${lines.length > 1 ? each.label : ''} <b>${written(value(each.values))}</b>`)}
      ${shown !== null && html` <span class="dim">${hours(at[shown])}</span>`}</span></figcaption>
    <div ref=${place} aria-hidden="true"></div></figure>`;
}

export function Twin({at, columns}) {
  return html`<details class="twin"><summary>Show as a table</summary><div class="scroll" tabindex="0" role="region" aria-label="The graphs as a table"><table>
    <caption class="unseen">The graphs as a table</caption>
    <thead><tr><th scope="col">Time (UTC)</th>${columns.map((each) => html`<th scope="col" class="number">${each.name}</th>`)}</tr></thead>
    <tbody>${at.map((time, n) => html`<tr><td class="nowrap">${days(time)}</td>${columns.map((each) => html`<td class="number">${each.written(each.values[n])}</td>`)}</tr>`).reverse()}</tbody>
  </table></div></details>`;
}
