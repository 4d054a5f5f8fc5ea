"""`holdfast measure`: how fast is Holdfast on this database, what holds it up, and which setting to change.

    place         a schema with a random name, made with our migrations and dropped at the end, however the run ends
    server        what the server says of itself: settings, who holds the xmin horizon, checkpoints; the installation
    trips         from here to there: round trips, commits, enqueues
    labour        a real worker process on jobs that do nothing: pick-up, drain, where its time goes
    measurements  what was found, as plain values
    diagnosis     a pure function of them: the bottleneck, and the one thing to change
    report        in words
    run           all of it in order, and the end

Nobody else's rows are read but the counts of the installation, and none is written. The run costs a share of the server
like any other work does, for about a minute.
"""
