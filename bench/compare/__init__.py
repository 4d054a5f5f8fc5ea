"""Two commits in turns: `make bench AGAINST=<commit>`, or `python -m bench --against COMMIT [AXES] [--turns N]`.

    sides         two folders under build/: this tree's source and the other commit's, each with this tree's benchmarks
    alternation   the order of the turns: this, other, other, this, …, so that a drift of the machine cancels out
    ratios        this ÷ other for each pair of turns, their median, its interval, and what that says
    report        the table, and the same as JSON
    contest       runs it: one server, a database of its own for every turn, a process of its own (`bench.turn`)

The interval is that of the median of the paired ratios by order statistics: it assumes nothing of how they are
distributed, but that the pairs are independent. At 15 pairs it reaches from the 4th to the 12th ratio and holds the
true median with 96.5 %. Below six pairs there is none, and nothing is said.

Worse means: the interval lies wholly beyond 3 % worse. CPU per job is shown beside each figure and judged in the same
way, but does not decide: it says where a difference comes from.
"""
