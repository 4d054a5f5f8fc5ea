"""The doctor: what is wrong with this installation and its server, before anybody waits for it.

    hf.doctor() ──▶ running.py ──▶ checks/NAME.py, one after the other ──▶ findings
                                        │
                                        └─ checks/NAME.sql, read-only, 5 s at most

A check looks at one thing and says what it found in a sentence, with a figure, a remedy and a page of the runbook. It
changes nothing. What the role may not see is "unseen", never "ok": without pg_monitor, the sessions of other roles are
invisible, and a doctor that cannot look must not say that all is well. A check that fails is "unseen", too, and does
not keep the others from looking.
"""
