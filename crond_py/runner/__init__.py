"""The runner: starts, watches and ends processes (the Processes port), and keeps their output.

    start ----> starters --spawn--> a child in a session of its own, output straight to a file
                                      |
                                      v pidfd
    report <--Ended-- supervisor: epoll, reaps --tree to be ended--> ender: /proc, signals

What holds, whatever happens:

1. Each start is answered by one StartFailed, or by one Started and later one Ended.
2. Only a child of ours is reaped, by its own number, and only here; its exit status goes nowhere
   else. Until it is reaped its number is its own, so signals reach what they are meant for;
   everything else is held by a pidfd and told from namesakes by its start.
3. Without a stop, Ended comes when the process itself ends; what it leaves in the background is
   left alone. After a stop it comes when all of the tree is gone.
4. A start that hangs holds up only itself; looking through /proc holds up no exit.
5. No thread wakes up while nothing happens.
6. The processes outlive the runner. A later one finds them by PYCRON_RUN_ID and adopts them.

On failure: a start that fails says why in words; output that cannot be opened costs the output
and not the run; where descriptors are short, threads wait in their place.

``process`` has the port; ``spawn``, ``starters``, ``supervisor``, ``ender`` and ``orphans`` do the
work; ``proctree`` and ``pidfds`` know Linux; ``environment`` and ``output`` stand alone.
"""
