"""Simulations for the browser: how one job, a crash, many workers, the ring and a claim loop behave.

    model/rules.json ──▶ static/rules_data.js ──▶ rules.js ──▶ receipt, crash, contention ─┐
                         static/ring.js (as model/ring.py) ──▶ ownership ──────────────────┼─▶ views ─▶ mount(element)
                                                               tuner ──────────────────────┘

Everything in `static/` is plain ES modules, without dependencies and without a build step. `static/mount.js` is the
entry: `mount(element)` shows all simulations inside the element. The dashboard serves the folder; `holdfast
simulations` puts all of it into one page that opens without a server (`inlining.py`).

What holds:

* Modules without a document (`rules`, `ring`, `random`, and one per simulation) run in Node, too: tests run them there.
* The state of a row changes only through the rules, so the simulations show what the database does.
* With the same seed and the same choices, a simulation always shows the same.
* No module uses `innerHTML`, inline styles in markup, `eval` or the network, so it works under a strict
  Content-Security-Policy with trusted types.
"""

from .inlining import STATIC, page, rules_module

__all__ = ["STATIC", "page", "rules_module"]
