"""`holdfast dev`: everything that a first job needs, in one command, for as long as it runs.

    holdfast dev ──▶ Postgres, kept in .holdfast/postgres (embedded), migrated
        │      ├───▶ holdfast worker app:hf          one child; replaced when a file changes
        │      └───▶ holdfast dashboard              one child, if its packages are installed
        └ looks at the files (watching), and decides (session)

What holds:

* New code is imported in a process of its own first (`checking`). Only if that works is the running worker drained and
  replaced; otherwise it goes on with the code that it has, and the error is shown.
* Children lead their own process groups, so Ctrl-C reaches this process alone, which then drains and stops all.
  However this process ends, the kernel ends the children with it, and the reaper stops Postgres.
* The data stays in `.holdfast/`; a second start finds them.
"""
