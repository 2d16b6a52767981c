#!/bin/sh
# A prolog for Slurm. Slurm drains a node whose prolog fails and requeues the job, so this fails only
# where gpumend says that the node is broken: not if it cannot tell, is missing, crashes or hangs.
#
#   slurm.conf: Prolog=/etc/slurm/prolog.d/gpumend
gpumend=${GPUMEND:-/usr/local/bin/gpumend}
said=$(timeout -k 2 20 "$gpumend" export slurm 2>/dev/null </dev/null)
status=$?
case $status:$said in
1:ok:* | 1:"cannot tell"*) ;;
1:[a-z]*:\ *)
    echo "print gpumend: $said"
    exit 1
    ;;
esac
exit 0
