"""`holdfast measure`: how fast is Holdfast on this database, what limits it, and which setting to change.

    place         a schema with a random name, made by our migrations and always dropped at the end
    server        facts about the server: settings, what holds the xmin horizon, checkpoints; the installation
    trips         measured from here: round trips, commits, enqueues
    worker        a real worker process on jobs that do nothing: pick-up, drain, where its time goes
    measurements  the results, as plain values
    diagnosis     a pure function of them: the bottleneck, and the one thing to change
    report        both as text
    run           all steps in order, and the clean-up

Of the user's own installation, only counts are read, and nothing is written. The run is real load on the server, for
about a minute.
"""
