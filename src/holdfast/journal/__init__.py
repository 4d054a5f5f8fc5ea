"""The flight recorder: what happened to the installation, and who did it, in the table `holdfast.journal`.

    occurrences ──▶ Recorder ──▶ Notes ──▶ Writer ──▶ holdfast.journal      supervisor, embedded worker
    operator's verb ───── in its own transaction ──▶ holdfast.journal       Python, CLI, SQL functions
    chore `journal` ──▶ holdfast.journal                                    bursts of dead letters; forgets old rows

    entries ──▶ story ──▶ telling                                           holdfast incidents, hf.incidents()

Invariants:

- A recorder never waits, fails or slows down what it describes. It keeps notes in memory; a loop writes them, on a
  connection that lives as long as the write. While the server is away, notes wait, and are written with their time.
- A process writes 20 notes, then 2 a minute. The rest is folded: one note per kind, with a count. What happens often
  (swept jobs, lost leases) shares a row a minute.
- An operator's row is a plain insert: it waits for nobody, and commits with what it describes, or not at all.

Times are the database's: a note says how long ago it was taken, so clocks of hosts do not matter.
"""
