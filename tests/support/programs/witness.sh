# Runs for a while and writes down that it did: witness.sh SECONDS STATUS [deaf | orphan]
#
# Two lines in $OUT, each in one write and without any other process, so that their order in the
# file is the order in which things happened:
#
#     begin UPTIME PID JOB RUN DUE ATTEMPT STATUS
#     end UPTIME PID JOB RUN DUE ATTEMPT STATUS
#
# "deaf": SIGTERM is ignored. "orphan": leaves a child in a session of its own behind.
witness() {
    read -r uptime rest < /proc/uptime
    echo "$1 $uptime $$ $PYCRON_JOB $PYCRON_RUN_ID $PYCRON_DUE $PYCRON_ATTEMPT $2" >> "$OUT"
}

witness begin "$2"
case "$3" in
    deaf) trap '' TERM ;;
    orphan) setsid sleep 0.3 & ;;
esac
# Whoever ends the sleep ends this: there is no word of an end then.
[ "$1" = 0 ] || sleep "$1" || exit 143
witness end "$2"
exit "$2"
