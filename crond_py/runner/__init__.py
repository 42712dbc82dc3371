"""The runner: starts, watches and ends processes (the Processes port), and keeps their output.

    start ----> starters --spawn--> a child in a session of its own, output straight to a file
                                      |
                                      v pidfd
    report <--Ended-- supervisor: epoll, reaps --tree to look at--> ender: /proc, signals
                        ^
                        | what has lost its parent: orphans

What holds, whatever happens:

1. Each start is answered by one StartFailed, or by one Started and later one Ended; so is one
   that is recalled.
2. Only a child of ours is reaped, by its own number, and only here; its exit status goes nowhere
   else. Until it is reaped its number is its own, so signals reach what they are meant for;
   everything else is held by a pidfd and told from namesakes by its start.
3. Without a stop, Ended comes when the process itself ends, and names what it leaves running.
   After a stop it comes when all of the tree is gone, and of those of the run's earlier attempts,
   but for what belongs to another user and gets no signal, and for what forks faster than it can
   be killed: that is told. Where the spec wants what is left ended, LeftOver comes first. What is
   left of a run between two attempts is ended on request, and Ended told once more.
4. A start that hangs holds up only itself, and of many of one instant those behind it for two
   seconds at most; looking through /proc holds up no exit, and a process that cannot be looked
   into holds up no look for more than two seconds.
5. No thread wakes up while nothing happens, but once or twice after something of ours has ended,
   for what that may have left: a second later, or ten where that takes a look at all processes.
   Only these are looked for again and again, at that interval: what a look that failed may have
   missed, and, where we were not opened by the main thread, what our children may leave. And each
   second what cannot be seen or held for want of a descriptor: a tree that is to be ended, and what
   an earlier runner has started. It is never taken for gone because of that.
6. The processes outlive the runner. A later one finds them by their marks and adopts them, also
   where only some of a tree is left.
7. A tree is what descends from its leader, whatever that does to hide: it is told by session, by
   parents, by the environment, by a brand that no program sheds unless it means to, and by being
   handed to us when its parent ends. An orphan that sheds all of that is told by its output, and
   by whose it was in an earlier picture. Else it is ended with its run only if no other that may
   leave something can have brought it forth, and never where we are pid 1 or had children of
   somebody else's from the beginning; then the end of the run says that it is left.
8. What the daemon starts for itself is an errand, and no look at the processes finds it.
9. What is to come after ends (``tell_after_ends``) comes after those of all that had ended when it
   was asked for and a descriptor holds; where it is being looked at what one has left, after that
   look or a fifth of a second.
10. Marks can be taken on by any local user. They count only on processes of root, of our own user
    and of the run's user, and on what was handed to us, which descends from a run of ours anyway.

On failure: a start that fails says why in words; output that cannot be opened costs the output
and not the run; where descriptors are short, threads wait in their place.

There is no cgroup for each run. Python cannot start a process in one, and moving it there takes
tens of milliseconds, within which what it has started gets away: the brand is there from the fork.

``process`` has the port, ``adoption``, ``believed`` and ``rests`` its part for what others have
started or left; ``spawn``, ``starters``, ``supervisor``, ``ender`` (by ``reach``) and ``orphans``
(by ``origins`` and ``suspects``) do the work, ``unheld`` for what cannot be held, ``glances`` for
what nobody has met, ``aftercalls`` for what comes after ends; ``descent`` tells who belongs to a
tree by ``marks``, which ``brand`` puts on; ``errands`` are none of it; ``proctree``, ``procfile``,
``environs``, ``pidfds`` and ``subreaper`` know Linux.

    punctual                        holds a start until its instant; many of one go to
        bursts: ushers --> usher    small programs that do nothing but start them, see there
    letgo                           notes for the next runner that the instant has come
    spawn: shellless                whether a text needs a shell at all
           lookups                  what many starts of a moment have in common
           setting (accounts, envfile + files, environment, programs) --> what the process finds
           execute                  subprocess: vfork, or fork with another user
           confine --> shim         limits and nice: a tiny program that sets them and executes

    output: the file, which the process itself writes to
            keeper --> upkeep        within its limit (holes, compaction), and passed on (passing)

``quota`` bounds what a job's outputs take in all; ``inotify`` and ``journal`` know Linux.

``credentials`` lets a thread look at files as the job's user; ``wording`` has words for faults,
and ``writing`` writes all of something.
"""
