// How it works, to play with: holdfast/simulations, in a tree of its own, so that the styles of the two do not meet.

import {html, useEffect, useRef} from '../lib.js';
import {mount} from '../../simulations/mount.js';

export function Simulations() {
  const place = useRef(null);
  useEffect(() => {
    const tree = place.current.shadowRoot ?? place.current.attachShadow({mode: 'open'});
    const style = document.createElement('link');
    style.rel = 'stylesheet';
    style.href = 'simulations/simulations.css';
    const inside = document.createElement('div');
    tree.replaceChildren(style, inside);
    return mount(inside);
  }, []);
  // From outside, what is typed in there looks as if it were typed nowhere: it must not be taken for a key of ours.
  const keep = (event) => event.composedPath()[0].matches?.('input, select') && event.stopPropagation();
  return html`<h1 tabindex="-1">How it works</h1><div ref=${place} onKeyDown=${keep}></div>`;
}
