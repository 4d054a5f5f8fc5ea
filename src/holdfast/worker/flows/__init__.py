"""How a worker runs workflow instances: another way to run claimed rows.

way         runs an instance, and says how its run ended
batching    what many instances ask for at a time, in one trip: their histories, for example
recording   writes finished steps behind the code, many instances in one commit
problems    what can go wrong around a step in a transaction, and is no failure of the step
traced      runs steps inside the spans of a traced application
"""
