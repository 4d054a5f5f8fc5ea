"""How a worker runs workflow instances: another way to run claimed rows.

loading     brings the histories of claimed instances, many in one trip
recording   writes finished steps behind the code, many instances in one commit
way         runs an instance, and says how its run ended
"""
