"""Claiming: when to look for work, and how much to take.

loops        along the lanes, and through the ordered keys whose row has just ended here
taker        who takes the claimed rows: hands, or a relay
pace         how fast work arrives: whether to poll again at once, or to sleep until woken
isolated     the same in an isolation process: suspects only, one at a time
unanswered   claims whose answer was lost
in_place     suspects where there is no isolation process, inside an application
"""
