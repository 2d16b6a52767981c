#!/bin/sh
# HealthCheckProgram for Slurm, which runs it as root on all nodes at once and does not use its status:
# gpumend drains a broken node itself, and resumes it when it is ok again.
#
#   slurm.conf: HealthCheckProgram=/etc/slurm/gpumend-healthcheck
#               HealthCheckInterval=300
#               HealthCheckNodeState=ANY,CYCLE
#
# GPUMEND_DRAINS: a file that all nodes share and can lock. GPUMEND_OPTIONS: such as "--gpus 8".
gpumend=${GPUMEND:-/usr/local/bin/gpumend}
# shellcheck disable=SC2086 # options are several words
timeout -k 2 45 "$gpumend" export slurm --drain --drain-count "${GPUMEND_DRAINS:-/shared/gpumend-drains}" \
    $GPUMEND_OPTIONS </dev/null
exit 0
