# Appends a line about the job that it is a part of to $OUT, in one write: e2e_stamp.sh WORD [PID]
#
# time pid job run due attempt word
echo "$(date +%s.%N) ${2:-$$} $PYCRON_JOB $PYCRON_RUN_ID $PYCRON_DUE $PYCRON_ATTEMPT $1" >> "$OUT"
