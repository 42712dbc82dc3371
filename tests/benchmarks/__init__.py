"""Measurements, of pycron and beside others: ``make bench``, or ``python -m tests.benchmarks``.

    jobs        what daemons are given to do
    peer        what a daemon tells about itself, and one that has been started
    ours, peers  the adapters: of pycron, and of the others
    origins     how the others are brought from package registries
    programs/   the job that is started, the limits in C and in Python, libraries run as daemons

    tracks      one daemon's starts in turn with the limit, within cycles of seconds
    on_time     which tracks: lone jobs, 50 and 500 at once, kinds of commands
    memory, commands, stored, crowd   the other measurements
    plan        which of them, in which order, how often

    stamps, processes, moments  what jobs wrote, what /proc tells, instants to wait for
    records, table, layout      the records of a run, and the report that is made of them
    parts/      single parts of pycron, each beside something that does the same

Rules: what is compared is measured in one run, in turn where it can be; each daemon is alone at its
bursts; memory is PSS, over all processes that a daemon keeps, its jobs left out; what could not be
measured is in the report.
"""
