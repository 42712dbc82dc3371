# A tree of processes, each of which can be found by the number that it sleeps for: e2e_tree.sh N
#
# A child of the shell; one that ignores SIGTERM; one that does so in a session of its own, whose
# parent has ended. Says "grown" on the FIFO "bell" when all of them are there.
(trap '' TERM; exec sleep "$1") &
(trap '' TERM; setsid sleep "$1" &)
sleep "$1" &
echo grown > bell
wait
