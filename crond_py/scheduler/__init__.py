"""The scheduler: plain callables run at their time on a pool of threads.

    api         Scheduler, the public methods; reads and checks what it is given
    options     what may be asked for: the options, spans of time, their checks
    task        what is kept of a task, and Task, the handle of its owner
    triggers    when a task is due next: once, at an interval, by a schedule
    lifecycle   the state machine: due, queued, running, retried, over
    workers     the threads that call tasks, the most urgent first

Below it is ``crond_py.dispatcher``: the heap of deadlines and the thread that sleeps until the
first of them. The daemon is driven by the same dispatcher; it runs processes, this runs callables.

The way of a task::

    schedule()   the trigger gives a deadline, the task goes on the heap
    due          the dispatcher's thread takes it from the heap; the overlap policy starts a run,
                 lets it wait for the task's other run, or skips it; the trigger moves on and the
                 task is on the heap again
    queued       the run waits for a worker: higher priority first, then in order
    running      a worker calls the task, outside every lock
    ended        it is over, or failed and on the heap again for its next attempt; a turn that
                 waited for it starts; a fixed delay begins

What holds at any time:

1. The dispatcher's thread never calls a task, and no lock is held while one is called.
2. A task has at most one deadline on the heap; a run is either queued, running, or on the heap
   for a retry. One that was taken from the heap and then cancelled finds that out under the lock
   before anything comes of it.
3. A cancelled task is never called again.
4. A scheduler that nobody uses has no thread, and threads that have nothing to do do not wake.

What fails: a task that raises is logged and counts as a failed attempt; a schedule that raises
ends its own task alone; where no thread can be started, the workers there are carry on, and with
none at all the run counts as failed.
"""

from __future__ import annotations

from crond_py.model import EveryMode, Missed, Overlap, Retry
from crond_py.scheduler.api import DEFAULT_WORKERS, Scheduler
from crond_py.scheduler.options import RepeatOptions, TaskOptions
from crond_py.scheduler.task import Task, TaskState

__all__ = [
    "DEFAULT_WORKERS",
    "EveryMode",
    "Missed",
    "Overlap",
    "RepeatOptions",
    "Retry",
    "Scheduler",
    "Task",
    "TaskOptions",
    "TaskState",
]
