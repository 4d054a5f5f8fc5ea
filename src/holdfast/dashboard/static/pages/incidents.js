import {day, go, html, useAsked} from '../lib.js';
import {Empty, Filters, Loading, Title} from '../parts.js';

const TONES = {bad: ['✕', 'bad'], warn: ['▲', 'warn'], ok: ['✓', 'ok']};

// Lines of a story, in the order in which they come.
export function Lines({lines}) {
  let last = '';
  return html`<ol class="story">${lines.map((each) => {
    const fresh = day(each.at) !== last;
    last = day(each.at);
    const [sign, tone] = TONES[each.level] || ['·', 'dim'];
    return html`${fresh && html`<li class="day">${last}</li>`}<li><time datetime=${each.at}>${each.time}</time><span class=${tone} aria-hidden="true">${sign}</span><span>${each.text}</span></li>`;
  })}</ol>`;
}

export function Incidents({query}) {
  const asked = useAsked(`/incidents?${new URLSearchParams(query)}`, query.around ? 0 : 5);
  return html`<${Title}>Incidents<//><p class="dim">What happened to the installation, in order, and who did it.</p>
    <${Filters} query=${query} onChange=${(next) => go('/incidents', next)} fields=${[{name: 'around', label: 'Around (UTC), such as 03:12'}, {name: 'within', label: 'Within', options: [['', '1 hour'], ['6h', '6 hours'], ['1d', '1 day'], ['7d', '7 days']]}]} />
    <${Loading} asked=${asked}>${(data) => (data.lines.length ? html`<${Lines} lines=${data.lines} />` : html`<${Empty}>Nothing happened in this time.<//>`)}<//>`;
}
